// A label for a whole sequence: a class, or numbers.
#include <bit>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

namespace {

FieldSpec number_labels(int64_t labels, ProblemType problem) {
  FieldSpec spec{.key = "labels", .name = "labels", .shape = FieldSpec::Shape::kNumbers, .size = labels};
  spec.dtype = DType::kF32;
  spec.required = true;
  spec.high = problem == ProblemType::kMultiLabel ? 1 : std::numeric_limits<float>::max();
  spec.low = problem == ProblemType::kMultiLabel ? 0 : -spec.high;
  spec.noun = "label";
  spec.range = problem == ProblemType::kMultiLabel ? "0 to 1" : "what 32 bits hold";
  spec.random_values = 2;
  return spec;
}

}  // namespace

TaskData sequence_classification_data(const TokenInputs& inputs, int64_t labels, ProblemType problem) {
  require(labels >= 1, "a classification without labels");
  Collator::BatchField targets{
      .name = "targets", .padding = kIgnoredLabel, .per = Collator::BatchField::Per::kSample};
  FieldSpec spec;
  if (problem == ProblemType::kSingleLabel) {
    spec = class_labels(labels, FieldSpec::Shape::kNumbers, "classes");
  } else {
    spec = number_labels(labels, problem);
    targets.padding = std::bit_cast<int32_t>(kIgnoredNumber);
    targets.numbers = labels;
    targets.dtype = DType::kF32;
  }
  return {token_fields(inputs, {spec}), std::make_unique<TokenCollator>(inputs, targets)};
}

}  // namespace recollect
