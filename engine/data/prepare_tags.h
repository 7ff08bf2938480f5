// Sentences of tagged words as samples for token classification, with Transformers' run_ner's features: the first token
// of a word has the word's class for its label, and all others are ignored.
#pragma once

#include "engine/data/packed_samples.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/tagged_words.h"

namespace recollect {

struct TagsSpec {
  std::vector<std::string> labels;  // names of the classes; none: samples without labels
  SequenceSpec sequence;
  int threads = 1;
};

// All tags of these, sorted: as numbers where all are numbers, as text otherwise.
std::vector<std::string> find_tags(std::span<const TaggedWords> files);

// A word that gives no token, or that is cut off, has no label. Errors: kInput, with path:line for a tag that is none,
// and as prepare_classification() has them.
PackedSamples prepare_tags(const TaggedWords& words, const Tokenizer& tokenizer, const TagsSpec& spec,
                           BadRecords& bad, std::vector<std::size_t>* left_out = nullptr);

}  // namespace recollect
