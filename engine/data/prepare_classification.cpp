#include "engine/data/prepare_classification.h"

#include <bit>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {
namespace {

std::vector<PackedSamples::Part> classification_parts(const ClassificationSpec& spec) {
  std::vector<PackedSamples::Part> parts{{.name = "ids"}};
  if (spec.token_types) parts.push_back({.name = "token_types"});
  parts.push_back({.name = "labels", .dtype = spec.labels.empty() ? DType::kF32 : DType::kI32});
  return parts;
}

}  // namespace

PackedSamples prepare_classification(const TextTable& table, const Tokenizer& tokenizer,
                                     const ClassificationSpec& spec) {
  if (static_cast<int64_t>(tokenizer.vocabulary_size()) > spec.vocabulary_size)
    throw Error(ExitCode::kInput, fmt::format("the tokenizer has {} ids, and the model a vocabulary of {}",
                                              tokenizer.vocabulary_size(), spec.vocabulary_size));
  const std::size_t text = table.column(spec.text), label = table.column(spec.label);
  const std::size_t pair = spec.pair.empty() ? text : table.column(spec.pair);
  const AssembleOptions options{.truncation = Truncation::kLongestFirst,
                                .max_length = static_cast<std::size_t>(spec.sequence_length)};
  const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
    std::vector<Token> first, second;
    tokenizer.encode(table.at(row, text), memory, first);
    std::optional<std::span<const Token>> other;
    if (!spec.pair.empty()) {
      tokenizer.encode(table.at(row, pair), memory, second);
      other = second;
    }
    std::vector<Token> tokens;
    try {
      tokens = std::move(tokenizer.assemble(first, other, options).front());
    } catch (const Error& error) {
      table.fail(row, error.what(), error.hint());
    }
    if (tokens.empty()) table.fail(row, "the text has not a single token");
    for (const Token& token : tokens) {
      sample["ids"].push_back(static_cast<int32_t>(token.id));
      if (spec.token_types) sample["token_types"].push_back(token.type);
    }
    sample["labels"].push_back(spec.labels.empty() ? std::bit_cast<int32_t>(table.number_at(row, label))
                                                   : table.class_at(row, label, spec.labels));
  };
  return prepare_samples(table.rows(), spec.threads, {classification_parts(spec), spec.sequence_length},
                         make);
}

}  // namespace recollect
