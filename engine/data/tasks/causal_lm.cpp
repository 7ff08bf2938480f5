// Causal language modelling: what each position is to predict is the label of the position behind it, and
// nothing at the end, nor at that of a packed document. A sample without labels learns its own ids.
#include "engine/core/ignored_label.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

namespace {

class CausalLmCollator : public Collator {
 public:
  explicit CausalLmCollator(bool packed) {
    if (packed) fields_.push_back(positions_field());
  }

  const std::vector<BatchField>& fields() const override { return fields_; }

  TargetCounts prepare(Fields& sample, int64_t, int64_t) const override {
    std::vector<int32_t>& targets = sample["targets"];
    const std::vector<int32_t>& labels = sample["labels"].empty() ? sample["ids"] : sample["labels"];
    targets.assign(labels.begin() + (labels.empty() ? 0 : 1), labels.end());
    targets.resize(labels.size(), kIgnoredLabel);
    const std::vector<int32_t>& positions = sample["positions"];
    for (std::size_t i = 1; i < positions.size(); ++i)
      if (positions[i] == 0) targets[i - 1] = kIgnoredLabel;
    return {count_targets(targets)};
  }

 private:
  std::vector<BatchField> fields_{{.name = "ids"}, {.name = "targets", .padding = kIgnoredLabel}};
};

}  // namespace

TaskData causal_lm_data(const TokenInputs& inputs) {
  return {{input_ids(inputs), id_labels(inputs)}, std::make_unique<CausalLmCollator>(inputs.packed)};
}

}  // namespace recollect
