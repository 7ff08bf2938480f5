// What each task is to data: the fields of its samples, and the collator that makes of them what its model
// reads, by the semantics of Transformers' models. Lines of JSONL name fields as those name their arguments.
// Every sequence is padded to the length s of its batch; a sample is one row of a batch, in multiple_choice one
// for each choice.
//
// task                     beside input_ids    targets
// causal_lm                labels?             [rows, s]    the label of the position behind, or the id there
// masked_lm                labels?             [rows, s]    labels as given; without them some ids are masked
//                                                           here, and are to be found again
// sequence_classification  labels              [samples]    a class
//                                              [samples, n] f32: numbers of a regression, or one per label
// multiple_choice          labels              [samples]    a choice; input_ids are lists of lists
// question_answering       start_positions,    [samples, 2] both; a negative one is 0, and one of s or more
//                          end_positions                    kIgnoredLabel
// token_classification     labels              [rows, s]    a class for each token
//
// Of padding, and where nothing is to be learnt, the target is kIgnoredLabel, and kIgnoredNumber among f32.
//
// Models read "ids" and "targets"; all but that of causal_lm read also
//   "lengths"      [rows]     tokens to attend: the ones of attention_mask?, or all; 1 in rows of padding
//   "token_types"  [rows, s]  token_type_ids?, or zeros; only where the model has token types
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/collator.h"
#include "engine/data/field_spec.h"

namespace recollect {

// What labels of a sequence are, as Transformers' `problem_type` says it.
enum class ProblemType { kRegression, kSingleLabel, kMultiLabel };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<ProblemType> = {
    "regression", "single_label_classification", "multi_label_classification"};

struct TaskData {
  std::vector<FieldSpec> fields;
  std::unique_ptr<Collator> collator;
};

// What a model reads of tokens.
struct TokenInputs {
  int64_t sequence_length = 0;
  int64_t vocabulary_size = 0;
  int64_t token_types = 0;  // 0: the model has none
  int32_t padding_id = 0;
  bool packed = false;  // samples have "positions" (packing.h): causal_lm and masked_lm
};

// How data without labels is masked (Devlin et al., 2019). Of the chosen ids eight in ten become mask_id, one
// becomes any id of the vocabulary, and one stays. Which ones, follows from the seed, the sample's number in
// the run and the position alone.
struct Masking {
  int32_t mask_id = 0;                    // negative: nothing is masked, and data must have labels
  std::vector<int32_t> special_ids = {};  // never chosen
  double probability = 0.15;
  uint64_t seed = 0;
};

// Numbers that make no sense are errors of the caller's: kInternal.
TaskData causal_lm_data(const TokenInputs& inputs);
TaskData masked_lm_data(const TokenInputs& inputs, const Masking& masking);
TaskData sequence_classification_data(const TokenInputs& inputs, int64_t labels, ProblemType problem);
TaskData multiple_choice_data(const TokenInputs& inputs, int64_t choices);
TaskData question_answering_data(const TokenInputs& inputs);
TaskData token_classification_data(const TokenInputs& inputs, int64_t labels);

}  // namespace recollect
