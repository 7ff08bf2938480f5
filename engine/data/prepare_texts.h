// Texts that a language model reads, tokenized when a run starts and held in memory, as narrow as the vocabulary allows:
// the same tokens that `recollect tokenize` writes to a file, in the same order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/bad_records.h"
#include "engine/data/dataset.h"
#include "engine/data/packed_samples.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct TextsSpec {
  std::vector<std::string> paths = {};  // files, which follow one another
  std::string key = "text";             // of lines
  int64_t sequence_length = 0;
  int64_t vocabulary_size = 0;  // of the model
  int threads = 1;
  OnBadRecord on_bad_record = OnBadRecord::kSkipBlank;
};

// With a sentence on each kind of record that was passed over.
struct PreparedTexts {
  std::unique_ptr<Dataset> dataset;
  std::vector<std::string> remarks = {};
};

// What a line becomes.
enum class LineTokens {
  kWithEnd,      // its tokens and the end of a document, as in a token file
  kWithSpecial,  // with the special tokens around it that the tokenizer puts there
};

// Errors, of all: kInput, with file and byte or line, for what is no UTF-8, no JSON, or has no text; for a tokenizer that
// has more tokens than the model, or none that ends a document.
//
// Files of text, each a document, as one stream that is cut into samples; its tail is dropped.
std::unique_ptr<Dataset> tokenize_stream(const Tokenizer& tokenizer, const TextsSpec& spec);
// A document for each line of JSONL. Longer ones are cut at sequence_length where the truncation is of the first text
// or of the longest, and an error where nothing is cut; `whole`: they are left as long as they are.
PreparedTexts tokenize_lines(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens,
                             Truncation truncation, bool whole);
// Likewise a document for each context of SQuAD's files.
PreparedTexts tokenize_contexts(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens,
                                Truncation truncation, bool whole);

}  // namespace recollect
