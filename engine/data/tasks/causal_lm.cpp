// Causal language modelling: what each position is to predict is the label of the position behind it, and
// nothing at the end, nor at that of a packed document. A sample without labels learns its own ids, but for those that its
// mask calls padding. Padding predicts nothing: of labels there the reader of records has seen that they are ignored.
#include <algorithm>

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
    leave_out_padding(sample["mask"], !sample["labels"].empty(), targets);
    return {count_targets(targets)};
  }

 private:
  // Labels of padding are ignored ones already.
  static void leave_out_padding(const std::vector<int32_t>& mask, bool has_labels,
                                std::vector<int32_t>& targets) {
    const auto padding = std::find(mask.begin(), mask.end(), 0) - mask.begin();
    if (padding == std::ssize(mask) || has_labels) return;
    std::fill(targets.begin() + std::max<std::ptrdiff_t>(padding - 1, 0), targets.end(), kIgnoredLabel);
  }

  std::vector<BatchField> fields_{{.name = "ids"}, {.name = "targets", .padding = kIgnoredLabel}};
};

}  // namespace

TaskData causal_lm_data(const TokenInputs& inputs) {
  FieldSpec labels = id_labels(inputs);
  labels.ignored_behind_padding = true;
  return {{input_ids(inputs), attention_mask(), labels}, std::make_unique<CausalLmCollator>(inputs.packed)};
}

}  // namespace recollect
