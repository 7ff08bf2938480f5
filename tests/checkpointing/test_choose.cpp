// What is left open of moves is decided by the links: more layers only where they are slow.
#include <gtest/gtest.h>

#include "checkpointing/choose.h"
#include "checkpointing/policies.h"
#include "checkpointing/recompute.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::choose_test {
namespace {

constexpr ResidencySettings kAllOpen{.keep_last = kOpen, .prefetch = kOpen};

// An op of these graphs takes 24 s, a copy over a link of `bandwidth` 96 / bandwidth.
ResidencySettings chosen(double bandwidth, const ResidencySettings& settings) {
  LayeredGraph g(7);
  const SavedActivations saved(g.graph);
  const Plan plan = make_plan(g.graph, saved, {.mode = CheckpointingMode::kFull, .cpu_checkpointing = true});
  recompute(g.graph, saved, plan);
  const DeviceModel device{.name = "by hand",
                           .vector_flops = 1,
                           .memory_bandwidth = 1e12,
                           .to_host_bandwidth = bandwidth,
                           .to_device_bandwidth = bandwidth};
  return choose_residency(g.graph, g.registry, saved, plan, settings, device);
}

TEST(Choose, TheLeastIsOneOfEach) {
  EXPECT_EQ(least_residency(kAllOpen).keep_last, 1);
  EXPECT_EQ(least_residency(kAllOpen).prefetch, 1);
  EXPECT_EQ(least_residency({.keep_last = 3, .prefetch = kOpen}).keep_last, 3);
}

TEST(Choose, FastLinksNeedNoMore) {
  const ResidencySettings fast = chosen(96, kAllOpen);
  EXPECT_EQ(fast.keep_last, 1);
  EXPECT_EQ(fast.prefetch, 1);
}

TEST(Choose, SlowLinksBeginEarlierOrKeepMore) {
  const ResidencySettings slow = chosen(0.8, kAllOpen);  // a copy takes as long as five ops
  EXPECT_GT(slow.keep_last + slow.prefetch, 2);
  EXPECT_LE(slow.keep_last, kMostLayers);
  EXPECT_LE(slow.prefetch, kMostLayers);
}

TEST(Choose, WhatIsGivenStays) {
  const ResidencySettings given = chosen(0.8, {.keep_last = 2, .prefetch = 0});
  EXPECT_EQ(given.keep_last, 2);
  EXPECT_EQ(given.prefetch, 0);
  EXPECT_EQ(chosen(0.8, {.keep_last = kOpen, .prefetch = 1}).prefetch, 1);
}

// Which values are rounded must not depend on what is fast.
TEST(Choose, WhatIsRoundedKeepsTheLeast) {
  EXPECT_EQ(chosen(0.8, {.keep_last = kOpen, .prefetch = kOpen, .storage = StorageDType::kBF16}).keep_last,
            1);
}

}  // namespace
}  // namespace recollect::test::choose_test
