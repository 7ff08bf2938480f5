#include "engine/data/sequence_maker.h"

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/data/bad_records.h"

namespace recollect {

SequenceMaker::SequenceMaker(const Tokenizer& tokenizer, const SequenceSpec& spec)
    : tokenizer_(tokenizer), spec_(spec) {
  if (static_cast<int64_t>(tokenizer.vocabulary_size()) > spec.vocabulary_size)
    throw Error(ExitCode::kInput,
                fmt::format("the tokenizer has {} ids, and the model a vocabulary of {}",
                            tokenizer.vocabulary_size(), spec.vocabulary_size),
                fmt::format("write model.vocab_size={}, or take a tokenizer of at most {} ids",
                            tokenizer.vocabulary_size(), spec.vocabulary_size));
}

std::vector<Token> SequenceMaker::encode(std::string_view first, std::optional<std::string_view> second,
                                         EncodingMemory& memory) const {
  std::vector<Token> tokens, others;
  tokenizer_.encode(first, memory, tokens);
  if (!second) return assemble(tokens, std::nullopt);
  tokenizer_.encode(*second, memory, others);
  return assemble(tokens, others);
}

std::vector<Token> SequenceMaker::encode(std::span<const std::string_view> words,
                                         EncodingMemory& memory) const {
  std::vector<Token> tokens;
  tokenizer_.encode(words, memory, tokens);
  return assemble(tokens, std::nullopt);
}

std::vector<Token> SequenceMaker::assemble(std::span<const Token> first,
                                           std::optional<std::span<const Token>> second) const {
  const auto most = static_cast<std::size_t>(spec_.sequence_length);
  std::vector<Token> tokens = std::move(
      tokenizer_.assemble(first, second, {.truncation = spec_.truncation, .max_length = most}).front());
  if (tokens.empty()) throw BlankRecord("the text has not a single token");
  if (tokens.size() > most)
    throw Error(ExitCode::kInput,
                fmt::format("{} tokens, where a sequence has at most {}", tokens.size(), most),
                "choose a greater data.sequence_length, or a data.truncation");
  return tokens;
}

void SequenceMaker::append(std::span<const Token> tokens, Fields& sample) const {
  for (const Token& token : tokens) {
    sample["ids"].push_back(static_cast<int32_t>(token.id));
    if (spec_.token_types) sample["token_types"].push_back(token.type);
  }
}

std::vector<PackedSamples::Part> SequenceMaker::parts(std::size_t lists) const {
  const std::size_t width = tokenizer_.vocabulary_size() <= 1 << 16 ? 2 : 4;
  std::vector<PackedSamples::Part> parts{{.name = "ids", .lists = lists, .width = width}};
  if (spec_.token_types) parts.push_back({.name = "token_types", .lists = lists, .width = 1});
  return parts;
}

}  // namespace recollect
