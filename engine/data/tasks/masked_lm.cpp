// Masked language modelling: labels as the data has them, where -100 does not count, or masked here.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/core/philox.h"
#include "engine/data/dataset.h"
#include "engine/data/tasks/token_data.h"

namespace recollect {

namespace {

class MaskedLmCollator final : public TokenCollator {
 public:
  MaskedLmCollator(const TokenInputs& inputs, const Masking& masking)
      : TokenCollator(inputs, {.name = "targets", .padding = kIgnoredLabel}),
        vocabulary_size_(static_cast<uint64_t>(inputs.vocabulary_size)),
        masking_(masking) {
    require(masking.mask_id < inputs.vocabulary_size, "the id of masks is outside the vocabulary");
    require(masking.probability > 0 && masking.probability <= 1, "a probability outside (0, 1]");
  }

 private:
  static bool below(uint32_t word, double probability) { return word < probability * 0x1p32; }

  bool is_special(int32_t id) const {
    return std::find(masking_.special_ids.begin(), masking_.special_ids.end(), id) !=
           masking_.special_ids.end();
  }

  TargetCounts add_targets(Fields& sample, int64_t number, int64_t length) const override {
    if (!sample["labels"].empty()) return TokenCollator::add_targets(sample, number, length);
    std::vector<int32_t>&ids = sample["ids"], &targets = sample["targets"];
    targets.assign(ids.size(), kIgnoredLabel);
    const auto attended = static_cast<std::size_t>(sample["lengths"].front());
    for (std::size_t position = 0; position < attended; ++position)
      if (!is_special(ids[position])) mask(number, position, ids[position], targets[position]);
    return {count_targets(targets)};
  }

  void mask(int64_t number, std::size_t position, int32_t& id, int32_t& target) const {
    const auto run_number = static_cast<uint64_t>(number);
    const RandomKey key{masking_.seed, run_number, kDataRandomLayer, kMaskingSite};
    const auto words = random_block(key, run_number >> 32 << 32 | position);
    if (!below(words[0], masking_.probability)) return;
    target = id;
    if (below(words[1], 0.8))
      id = masking_.mask_id;
    else if (below(words[1], 0.9))
      id = static_cast<int32_t>(words[2] * vocabulary_size_ >> 32);
  }

  uint64_t vocabulary_size_;
  Masking masking_;
};

}  // namespace

TaskData masked_lm_data(const TokenInputs& inputs, const Masking& masking) {
  FieldSpec labels = id_labels(inputs);
  labels.required = masking.mask_id < 0;
  return {token_fields(inputs, {labels}), std::make_unique<MaskedLmCollator>(inputs, masking)};
}

}  // namespace recollect
