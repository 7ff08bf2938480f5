// A class for each token; -100 where none is to be learnt, such as for the later parts of a word.
#include "engine/core/ignored_label.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

TaskData token_classification_data(const TokenInputs& inputs, int64_t labels) {
  const FieldSpec spec = class_labels(labels, FieldSpec::Shape::kTokens, "classes");
  return {token_fields(inputs, {spec}),
          std::make_unique<TokenCollator>(inputs,
                                          Collator::BatchField{.name = "targets", .padding = kIgnoredLabel})};
}

}  // namespace recollect
