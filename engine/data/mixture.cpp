#include "engine/data/mixture.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {

namespace {

constexpr double kMostSamples = 0x1p53;  // that a double counts one by one

}  // namespace

Mixture::Mixture(std::vector<Part> parts) : parts_(std::move(parts)) {
  require(parts_.size() >= 2, "a mixture of fewer than two sets");
  double sum = 0, epoch = 0;
  for (const Part& part : parts_) {
    require(part.weight > 0 && part.samples->sequence_length() == sequence_length(),
            "a set that cannot be mixed with the others");
    sum += part.weight;
  }
  for (const Part& part : parts_)
    epoch = std::max(epoch, static_cast<double>(part.samples->size()) * sum / part.weight);
  if (!(epoch <= kMostSamples))
    throw Error(ExitCode::kConfiguration,
                fmt::format("data.weights: an epoch of all sets would have {:.3g} samples", epoch),
                "give the large sets greater weights, or leave the smallest one out");
  int64_t end = 0;
  for (const Part& part : parts_) {
    end += std::max<int64_t>(part.samples->size(), std::llround(epoch * part.weight / sum));
    ends_.push_back(end);
  }
}

std::pair<const Dataset*, int64_t> Mixture::find(int64_t index) const {
  require(index >= 0 && index < size(), "sample index out of range");
  const auto part =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  const int64_t number = index - (ends_[part] - samples_of(part));
  return {parts_[part].samples.get(), number % parts_[part].samples->size()};
}

int64_t Mixture::length(int64_t index) const {
  const auto [set, number] = find(index);
  return set->length(number);
}

void Mixture::read(int64_t index, Fields& sample) const {
  const auto [set, number] = find(index);
  set->read(number, sample);
}

std::string Mixture::description() const {
  std::string text;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    text += fmt::format("{}{:.1f} % {}, {:.3g} times an epoch", text.empty() ? "" : "; ",
                        100 * static_cast<double>(samples_of(i)) / static_cast<double>(size()),
                        printable(parts_[i].name),
                        static_cast<double>(samples_of(i)) / static_cast<double>(parts_[i].samples->size()));
  return text;
}

}  // namespace recollect
