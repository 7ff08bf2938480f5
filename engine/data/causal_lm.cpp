#include <algorithm>

#include "engine/core/ignored_label.h"
#include "engine/data/collator.h"

namespace recollect {

namespace {

class CausalLmCollator : public Collator {
 public:
  const std::vector<BatchField>& fields() const override { return fields_; }

  int64_t prepare(Fields& sample) const override {
    std::vector<int32_t>& targets = sample["targets"];
    const std::vector<int32_t>& labels = sample["labels"].empty() ? sample["ids"] : sample["labels"];
    targets.assign(labels.begin() + (labels.empty() ? 0 : 1), labels.end());
    targets.resize(labels.size(), kIgnoredLabel);
    return static_cast<int64_t>(targets.size()) - std::count(targets.begin(), targets.end(), kIgnoredLabel);
  }

 private:
  std::vector<BatchField> fields_{{"ids", 0}, {"targets", kIgnoredLabel}};
};

}  // namespace

std::unique_ptr<Collator> causal_lm_collator() { return std::make_unique<CausalLmCollator>(); }

}  // namespace recollect
