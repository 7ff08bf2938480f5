// A file of tokens as data.format tokens reads it. It takes its name only at finish(): a failure leaves
// whatever was there before.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/token_formats.h"
#include "engine/io/files.h"

namespace recollect {

struct TokenFileSpec {
  std::string path;    // Megatron: the pair's common prefix, or either file
  std::string format;  // "llm.c", "headerless" or "megatron"
  std::size_t vocabulary_size = 0;
  std::optional<TokenType>
      type;  // of a headerless file; otherwise, and else, the narrowest that holds every id
};

// The files that a writer of this specification makes.
std::vector<std::string> files_written(const TokenFileSpec& spec);

class TokenWriter {
 public:
  // Errors: kConfiguration for a spec that makes no sense or ids that do not fit, kStorage.
  explicit TokenWriter(const TokenFileSpec& spec);

  // `document_ends`: how many of `ids` come before the end of each document that ends among them.
  void append(std::span<const uint32_t> ids, std::span<const std::size_t> document_ends);
  void finish();

  const std::string& path() const { return data_.path(); }
  TokenType type() const { return type_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return documents_; }

 private:
  void end_document(uint64_t tokens);
  void write_index();

  std::string format_;
  TokenType type_;
  ReplacementFile data_;
  std::optional<ReplacementFile> index_;
  uint64_t tokens_ = 0, documents_ = 0, open_document_ = 0;
  std::vector<int32_t> lengths_;  // of Megatron's sequences
};

}  // namespace recollect
