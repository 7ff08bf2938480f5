// What a model is trained for. A task is the numbers that a model's head makes, the targets that they are held
// against, and the loss; which parameters the head has is its family's business. What samples look like is
// said in engine/data/tasks.h. Semantics are those of Hugging Face's models of the same name.
//
// task                     logits                                 targets              loss, a mean over
// causal_lm                the vocabulary's                       [b, s]               positions
// masked_lm                the vocabulary's                       [b, s]               positions
// sequence_classification  [b, labels]                            [b]                  samples
//                                                                 [b, labels] f32      samples x labels: squared
//                                                                                      (regression) or sigmoid
//                                                                                      (multi-label)
// multiple_choice          [b, 1], b = questions x choices        [b / choices]        questions
// question_answering       [b s, 2]: start and end                [b, 2]               samples, and of the two
// token_classification     [b s, labels]                          [b, s]               positions
// A target of -100, or one that is no number where targets are numbers, does not count.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/spelled.h"
#include "engine/data/tasks.h"
#include "parallel/fp8.h"
#include "parallel/lora_settings.h"

namespace recollect {

enum class Task {
  kCausalLm,
  kMaskedLm,
  kSequenceClassification,
  kMultipleChoice,
  kQuestionAnswering,
  kTokenClassification
};
template <>
inline constexpr std::array<std::string_view, 6> kSpellings<Task> = {
    "causal_lm",       "masked_lm",          "sequence_classification",
    "multiple_choice", "question_answering", "token_classification"};

struct TaskSettings {
  Task task = Task::kCausalLm;
  int64_t labels = 0;  // of a classification or regression
  ProblemType problem = ProblemType::kSingleLabel;
  int64_t choices = 1;  // sequences of a sample: multiple_choice
  // Sequences stand back to back in a sample: the model reads "positions" [b, s], each token's in its sequence
  // or -1 for padding, in place of "lengths"; and what is made for each sample above is made for each sequence,
  // whose first tokens' numbers in the batch are "first_tokens" [packed sequences], -1 where there are fewer.
  bool packed = false;
  LoraSettings lora = {};         // what of the model is trained, where that is not all of it
  Fp8Settings fp8 = {};           // the layers' linear modules multiply 8-bit codes
  bool gelu_in_products = false;  // MLPs' GELU in the tanh form is part of the product before it

  // Columns of targets that are averaged each by itself.
  int64_t columns() const { return task == Task::kQuestionAnswering ? 2 : 1; }
  bool targets_are_numbers() const {
    return task == Task::kSequenceClassification && problem != ProblemType::kSingleLabel;
  }
};

}  // namespace recollect
