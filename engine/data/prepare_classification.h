// Rows of texts and labels as samples for sequence classification, with Transformers' run_glue's features: one text or
// two with special tokens around them, cut the longest first, "ids", "token_types" and "labels".
#pragma once

#include "engine/data/packed_samples.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/text_table.h"

namespace recollect {

struct ClassificationSpec {
  std::string text, pair, label;    // columns; no pair: one text; no label: samples without
  std::vector<std::string> labels;  // names of the classes; none: the label is a number
  SequenceSpec sequence;
  int threads = 1;
  std::vector<int32_t> order = {};  // not empty: the class of each of `labels`
};

// Errors: kInput, with path:line for a label that is none, a text without tokens, and special tokens that leave no room;
// and for a tokenizer that has more ids than the model. `bad` and `left_out`: as prepare_samples() has them, here and below.
PackedSamples prepare_classification(const TextTable& table, const Tokenizer& tokenizer,
                                     const ClassificationSpec& spec, BadRecords& bad,
                                     std::vector<std::size_t>* left_out = nullptr);

}  // namespace recollect
