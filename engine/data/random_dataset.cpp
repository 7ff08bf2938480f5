// Endless made-up data for benchmarks, for any task: no file, no state, the same on every rank and at every
// layout.
#include <bit>

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
        seed_(spec.seed),
        lengths_(spec.random_lengths),
        label_(spec.random_label),
        specs_(spec.fields) {
    for (const DatasetSpec::Lengths& some : lengths_) shares_ += some.share;
  }

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }

  int64_t length(int64_t index) const override {
    if (lengths_.empty()) return length_;
    constexpr uint64_t kFine = uint64_t{1} << 32;
    double left =
        static_cast<double>(below(kFine, index, kRandomLengthSite, 0)) / static_cast<double>(kFine) * shares_;
    std::size_t chosen = 0;
    while (chosen + 1 < lengths_.size() && left >= lengths_[chosen].share) left -= lengths_[chosen++].share;
    const DatasetSpec::Lengths& one = lengths_[chosen];
    return one.low + below(static_cast<uint64_t>(one.high - one.low + 1), index, kRandomLengthSite, 1);
  }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    uint32_t site = kRandomNumberSite;
    for (const FieldSpec& spec : specs_) {
      if (!spec.required) continue;
      Field& field = sample.field(spec.name);
      field.dtype = spec.dtype;
      if (&spec == specs_.data())
        make_ids(index, spec, field);
      else
        make_numbers(index, site++, spec, field);
    }
  }

 private:
  // Number `i` below `range` of what is made for `index`: multiply and shift, uniform to within range / 2^32.
  int64_t below(uint64_t range, int64_t index, uint32_t site, std::size_t i) const {
    const auto number = static_cast<uint64_t>(index);
    const uint64_t word = random_word({seed_, number, kDataRandomLayer, site}, number >> 32 << 32 | i);
    return static_cast<int64_t>(word * range >> 32);
  }

  void make_ids(int64_t index, const FieldSpec& spec, Field& ids) const {
    const int64_t rows = spec.shape == FieldSpec::Shape::kTokenLists ? spec.size : 1;
    const auto length = static_cast<std::size_t>(this->length(index));
    ids.values.resize(static_cast<std::size_t>(rows) * length);
    for (int64_t row = 0; row < rows; ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * length;
      for (std::size_t i = 0; i < length; ++i)
        ids.values[first + i] =
            static_cast<int32_t>(low_ + below(range_, index * rows + row, kRandomIdSite, i));
      if (spec.shape == FieldSpec::Shape::kTokenLists) ids.ends.push_back(first + length);
    }
  }

  void make_numbers(int64_t index, uint32_t site, const FieldSpec& spec, Field& field) const {
    field.values.resize(
        static_cast<std::size_t>(spec.shape == FieldSpec::Shape::kNumbers ? spec.size : length(index)));
    for (std::size_t i = 0; i < field.values.size(); ++i) {
      const int64_t number =
          label_ >= 0 ? label_ : below(static_cast<uint64_t>(spec.random_values), index, site, i);
      field.values[i] = spec.dtype == DType::kF32 ? std::bit_cast<int32_t>(static_cast<float>(number))
                                                  : static_cast<int32_t>(number);
    }
  }

  int64_t size_, length_, low_;
  uint64_t range_, seed_;
  std::vector<DatasetSpec::Lengths> lengths_;
  double shares_ = 0;  // of all of them
  int64_t label_;
  std::vector<FieldSpec> specs_;
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
  for (const FieldSpec& field : spec.fields)
    if (spec.random_label >= 0 && field.required && field.name != "ids" &&
        static_cast<double>(spec.random_label) > field.high)
      throw Error(ExitCode::kConfiguration,
                  fmt::format("data.constant_label {} is outside {}", spec.random_label, field.range));
  if (!spec.paths.empty())
    throw Error(ExitCode::kConfiguration, "random data reads no files, but data.path names some");
  return std::make_unique<RandomDataset>(spec);
}

}  // namespace recollect
