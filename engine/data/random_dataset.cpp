// Endless made-up data for benchmarks: no file, no state, the same on every rank and at every layout.
#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "engine/data/formats.h"

namespace recollect {
namespace {

class RandomDataset : public Dataset {
 public:
  explicit RandomDataset(const DatasetSpec& spec)
      : size_(spec.random_size),
        length_(spec.sequence_length),
        low_(spec.random_low),
        range_(static_cast<uint64_t>((spec.random_high ? spec.random_high : spec.vocabulary_size) - low_)),
        seed_(spec.seed) {}

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    std::vector<int32_t>& ids = sample["ids"];
    ids.resize(static_cast<std::size_t>(length_));
    const RandomKey key{seed_, static_cast<uint64_t>(index), kDataRandomLayer, 0};
    const uint64_t high_part = static_cast<uint64_t>(index) >> 32 << 32;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Multiply and shift: uniform to within range / 2^32.
      const uint64_t word = random_word(key, high_part | i);
      ids[i] = static_cast<int32_t>(low_ + static_cast<int64_t>(word * range_ >> 32));
    }
  }

 private:
  int64_t size_, length_, low_;
  uint64_t range_, seed_;
};

}  // namespace

std::unique_ptr<Dataset> open_random_dataset(const DatasetSpec& spec) {
  const int64_t high = spec.random_high ? spec.random_high : spec.vocabulary_size;
  if (spec.random_low < 0 || spec.random_low >= high || high > spec.vocabulary_size)
    throw Error(ExitCode::kConfiguration,
                fmt::format("random ids in [{}, {}) with a vocabulary of {}", spec.random_low, high,
                            spec.vocabulary_size),
                "0 <= low < high <= vocabulary size");
  if (spec.random_size < 1)
    throw Error(ExitCode::kConfiguration, fmt::format("a random dataset of {} sequences", spec.random_size));
  if (!spec.paths.empty())
    throw Error(ExitCode::kConfiguration, "random data reads no files, but data.path names some");
  return std::make_unique<RandomDataset>(spec);
}

}  // namespace recollect
