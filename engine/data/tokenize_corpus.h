// Text files into one token file, or whatever takes its tokens. The input is cut into chunks that can be encoded by themselves; threads
// take them in order and write them in order, so that the file, and the error where there is one, do not
// depend on how many threads there are, and each holds one chunk at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/token_writer.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct CorpusSpec {
  // Files, or folders searched for *.txt and *.jsonl. A file is one document, taken byte by byte (no newline
  // is translated); of a .jsonl file every line is one: an object with the text under `key`. Lines without anything and
  // texts without tokens are passed over.
  std::vector<std::string> inputs;
  std::string key = "text";
  std::optional<uint32_t> end_of_document;  // appended to every document
  int threads = 1;
  std::atomic<int64_t>* blank_records =
      nullptr;  // counts lines without anything and texts without tokens, if given
};

// The token that ends a text: the tokenizer's eos_token, or else <|endoftext|>, <|end_of_text|>, </s>, <eos> or [SEP].
std::optional<uint32_t> usual_end_of_document(const Tokenizer& tokenizer);

// Takes tokens in their order, from one thread at a time, as TokenWriter::append does.
using TakeTokens =
    std::function<void(std::span<const uint32_t> ids, std::span<const std::size_t> document_ends)>;

// `progress` hears the bytes done and those there
// are, from one thread at a time. Returns the bytes of input. Errors: kInput naming file and byte for what is
// not UTF-8 or not JSON, a line without the key, input without any text; those of `take`.
uint64_t tokenize_corpus(const Tokenizer& tokenizer, const CorpusSpec& spec, const TakeTokens& take,
                         const std::function<void(uint64_t done, uint64_t all)>& progress);
// Writes everything but the end: finish() is the caller's.
uint64_t tokenize_corpus(const Tokenizer& tokenizer, const CorpusSpec& spec, TokenWriter& writer,
                         const std::function<void(uint64_t done, uint64_t all)>& progress);

}  // namespace recollect
