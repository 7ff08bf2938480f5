// Which of several sequences, all of one sample, is the right one.
#include "engine/core/ignored_label.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

TaskData multiple_choice_data(const TokenInputs& inputs, int64_t choices) {
  const FieldSpec labels = class_labels(choices, FieldSpec::Shape::kNumbers, "choices");
  return {token_fields(inputs, {labels}, choices),
          std::make_unique<TokenCollator>(
              inputs,
              Collator::BatchField{
                  .name = "targets", .padding = kIgnoredLabel, .per = Collator::BatchField::Per::kSample},
              choices)};
}

}  // namespace recollect
