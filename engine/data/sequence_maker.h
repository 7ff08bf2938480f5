// One text or two as a sequence of a sample: special tokens around them, and cut to the sample's length, as Transformers'
// tokenizers do when they are called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/data/packed_samples.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct SequenceSpec {
  int64_t sequence_length = 0;  // special tokens included
  Truncation truncation = Truncation::kLongestFirst;
  int64_t vocabulary_size = 0;  // of the model
  bool token_types = true;      // whether the model reads them
};

class SequenceMaker {
 public:
  // Error kInput where the tokenizer has ids that the model does not have.
  SequenceMaker(const Tokenizer& tokenizer, const SequenceSpec& spec);

  // Errors, of these and below: kInput without a place, for special tokens that leave no room, a text that is too long
  // where nothing is to be cut, and one that gives not a single token.
  std::vector<Token> encode(std::string_view first, std::optional<std::string_view> second,
                            EncodingMemory& memory) const;
  std::vector<Token> encode(std::span<const std::string_view> words, EncodingMemory& memory) const;

  // Behind what "ids" and "token_types" have already.
  void append(std::span<const Token> tokens, Fields& sample) const;
  // "ids" and, where the model reads them, "token_types"; lists of lists where `lists` is not 0.
  std::vector<PackedSamples::Part> parts(std::size_t lists = 0) const;
  int64_t sequence_length() const { return spec_.sequence_length; }

 private:
  std::vector<Token> assemble(std::span<const Token> first,
                              std::optional<std::span<const Token>> second) const;

  const Tokenizer& tokenizer_;
  SequenceSpec spec_;
};

}  // namespace recollect
