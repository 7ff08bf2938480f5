// Questions as samples, with Transformers' run_qa's features: the question, blanks before it left out, and then as much of
// the context as there is room for; what is cut off comes in further windows, which share some tokens with the one before.
// Where the answer does not lie in a window, or there is none, both positions are those of the classification token.
#pragma once

#include "engine/data/packed_samples.h"
#include "engine/data/questions.h"
#include "engine/data/sequence_maker.h"

namespace recollect {

struct QuestionsSpec {
  bool labelled = true;   // samples have "start" and "end"
  int64_t stride = 128;   // tokens of the context that two windows one behind the other share
  SequenceSpec sequence;  // its truncation is not asked for
  int threads = 1;
};

// Windows of all contexts of the set from `context` on, which `path` holds; adds them to the set, and the places of their
// tokens. Errors: kInput, with path:line and the question's id, for a question that leaves no room for the context, a
// stride that leaves none for progress, and an answer in a context without tokens.
PackedSamples prepare_questions(const std::string& path, std::size_t context, const Tokenizer& tokenizer,
                                const QuestionsSpec& spec, QuestionAnsweringSet& set);

}  // namespace recollect
