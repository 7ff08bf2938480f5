// Several sets as one: shares, epochs, and each sample as often as it should come.
#include <gtest/gtest.h>

#include <map>

#include "engine/core/error.h"
#include "engine/data/mixture.h"
#include "tests/engine/expect_error.h"

namespace recollect {
namespace {

// Samples of one id, which tells them apart.
class Numbered final : public Dataset {
 public:
  Numbered(int64_t size, int32_t first) : size_(size), first_(first) {}
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return 4; }
  int64_t length(int64_t index) const override { return 1 + index % 4; }
  void read(int64_t index, Fields& sample) const override {
    sample["ids"] = {first_ + static_cast<int32_t>(index)};
  }

 private:
  int64_t size_;
  int32_t first_;
};

Mixture mixed(const std::vector<std::pair<int64_t, double>>& sets) {
  std::vector<Mixture::Part> parts;
  for (const auto& [size, weight] : sets)
    parts.push_back({std::make_unique<Numbered>(size, 1000 * static_cast<int32_t>(parts.size())), weight,
                     "set" + std::to_string(parts.size())});
  return Mixture(std::move(parts));
}

// How often each sample comes in an epoch.
std::map<int32_t, int> counts(const Mixture& mixture) {
  std::map<int32_t, int> counts;
  for (int64_t i = 0; i < mixture.size(); ++i) {
    Fields sample;
    mixture.read(i, sample);
    ++counts[sample["ids"].at(0)];
    EXPECT_EQ(mixture.length(i), 1 + sample["ids"].at(0) % 1000 % 4);
  }
  return counts;
}

TEST(Mixture, GoesThroughTheSetOfTheGreatestNeedOnce) {
  const Mixture mixture = mixed({{100, 3}, {20, 1}});  // three quarters of an epoch are 100 samples
  EXPECT_EQ(mixture.size(), 133);
  EXPECT_EQ(mixture.description(), "75.2 % set0, 1 times an epoch; 24.8 % set1, 1.65 times an epoch");
  const std::map<int32_t, int> counted = counts(mixture);
  ASSERT_EQ(counted.size(), 120u) << "every sample comes";
  for (const auto& [id, times] : counted) EXPECT_EQ(times, id < 1000 ? 1 : id < 1013 ? 2 : 1) << id;
}

TEST(Mixture, OfSetsThatAreAsLargeAsTheirSharesIsAllOfThem) {
  const Mixture mixture = mixed({{30, 0.3}, {50, 0.5}, {20, 0.2}});
  EXPECT_EQ(mixture.size(), 100);
  for (const auto& [id, times] : counts(mixture)) EXPECT_EQ(times, 1) << id;
}

TEST(Mixture, RefusesASharesThatNoEpochHolds) {
  test::expect_error(ExitCode::kConfiguration, {"data.weights: an epoch of all sets would have"}, [] {
    mixed({{1000, 1e-18}, {10, 1}});
  });
}

}  // namespace
}  // namespace recollect
