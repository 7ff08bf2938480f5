// Rows of a text and several endings as samples for multiple choice, with Transformers' run_swag's features: a sequence
// for each ending, in which the text comes first and the ending, with what it begins with, second.
#pragma once

#include "engine/data/packed_samples.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/text_table.h"

namespace recollect {

struct ChoicesSpec {
  std::string text, header;  // columns; a header stands before each ending, a blank between them; or none
  std::string ending;        // columns ENDING0, ENDING1, ..., of which there are two or more
  std::string label;         // the right one, from 0; none: samples without labels
  SequenceSpec sequence;
  int threads = 1;
};

// The endings that rows of the table have. Error kInput for fewer than two.
std::size_t count_choices(const TextTable& table, const std::string& ending);

// "ids" and "token_types" are lists of lists. Errors as prepare_classification() has them.
PackedSamples prepare_choices(const TextTable& table, const Tokenizer& tokenizer, const ChoicesSpec& spec,
                              BadRecords& bad, std::vector<std::size_t>* left_out = nullptr);

}  // namespace recollect
