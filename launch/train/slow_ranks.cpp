#include "launch/train/slow_ranks.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "engine/core/printable.h"

namespace recollect {

namespace {

constexpr double kSlowerBy = 1.3;
constexpr double kLeastSeconds = 2e-3;  // less is noise of the system

}  // namespace

SlowRanks find_slow_ranks(std::span<const double> seconds) {
  SlowRanks found;
  if (seconds.size() < 2) return found;
  std::vector<double> sorted(seconds.begin(), seconds.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  found.median = *middle;
  for (std::size_t r = 0; r < seconds.size(); ++r)
    if (seconds[r] > kSlowerBy * found.median && seconds[r] - found.median > kLeastSeconds)
      found.ranks.push_back({static_cast<int>(r), seconds[r]});
  std::sort(found.ranks.begin(), found.ranks.end(),
            [](const SlowRanks::One& a, const SlowRanks::One& b) { return a.seconds > b.seconds; });
  return found;
}

SlowRanks gather_slow_ranks(double own_seconds, Communicator& world) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather({&own_seconds, {1}, DType::kF64}, {all.data(), {world.size()}, DType::kF64});
  return find_slow_ranks(all);
}

std::string slow_ranks_text(const SlowRanks& slow) {
  if (slow.ranks.empty()) return "";
  const SlowRanks::One& one = slow.ranks.front();
  std::string text = fmt::format(
      "slow: rank {} works {} of a step, {:.2f} times the median rank's {}, and the others wait for it",
      one.rank, duration_text(one.seconds), one.seconds / slow.median, duration_text(slow.median));
  std::vector<std::string> others;
  for (std::size_t i = 1; i < slow.ranks.size(); ++i)
    others.push_back(fmt::format("rank {}", slow.ranks[i].rank));
  return text + (others.empty() ? "\n" : "; so it is with " + list_some(others) + "\n");
}

}  // namespace recollect
