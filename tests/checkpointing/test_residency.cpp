// Where saved activations go and when they come back, op by op.
#include <gtest/gtest.h>

#include "checkpointing/policies.h"
#include "checkpointing/recompute.h"
#include "checkpointing/residency.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::residency_test {
namespace {

// Layer inputs alone are saved, the rest is recomputed, and then they move.
ResidencyReport move_inputs(SmallGraph& g, CheckpointingSettings policy,
                            const ResidencySettings& settings = {}) {
  const SavedActivations saved(g.graph);
  policy.mode = CheckpointingMode::kFull;
  const Plan plan = make_plan(g.graph, saved, policy);
  recompute(g.graph, saved, plan);
  return place_saved_activations(g.graph, g.registry, saved, plan, settings);
}

// e leaves as soon as it is made and comes back with the backward of layer 1; b0, the last layer's input,
// stays.
TEST(Residency, TheHostHoldsWhatIsNotNeededAtOnce) {
  LayeredGraph g(2);
  const ResidencyReport report = move_inputs(g, {.cpu_checkpointing = true});
  EXPECT_EQ(text_of(g.graph), R"(
e(x)
host/e(e) on device_to_host
a0(e)
b0(a0)
a1(b0) after host/e
b1(a1)
f(b1)
gf(f b1)
fetched/layer0/e(host/e) on host_to_device after gf
recompute/a1(b0)
gb1(gf recompute/a1)
ga1(gb1 b0)
recompute/a0(fetched/layer0/e)
gb0(ga1 recompute/a0)
ga0(gb0 fetched/layer0/e)
)");
  EXPECT_EQ(report.host_values, 1);
  EXPECT_EQ(report.to_host_bytes, 4u * 6 * 4);
  EXPECT_EQ(report.read_in_last_layers.host, 1);
  EXPECT_EQ(report.read_behind_layers.host, 1) << "b1, which f's backward reads";
  ASSERT_EQ(report.returned.size(), 1u);
  EXPECT_EQ(g.graph.value(report.returned[0].original).name, "e");
  EXPECT_EQ(g.graph.value(report.returned[0].again).name, "fetched/layer0/e");
  EXPECT_EQ(report.layer_inputs[static_cast<int>(MemorySpace::kHost)], 4u * 6 * 4);
  EXPECT_EQ(report.layer_inputs[static_cast<int>(MemorySpace::kDevice)], 4u * 6 * 4);
}

TEST(Residency, EachRankStoresItsPartAndGathersTheWhole) {
  LayeredGraph g(2);
  const ResidencyReport report = move_inputs(g, {.partition_activations = true}, {.tensor_size = 4});
  EXPECT_EQ(text_of(g.graph), R"(
e(x)
kept/e(e)
a0(e)
b0(a0)
a1(b0)
b1(a1)
f(b1)
gf(f b1)
fetched/layer0/e(kept/e) on gather after gf
recompute/a1(b0)
gb1(gf recompute/a1)
ga1(gb1 b0)
recompute/a0(fetched/layer0/e)
gb0(ga1 recompute/a0)
ga0(gb0 fetched/layer0/e)
)");
  EXPECT_EQ(g.graph.value(g.graph.find("kept/e")).shape, Shape{6}) << "a quarter of 4 x 6";
  EXPECT_EQ(report.partitioned_values, 1);
  EXPECT_EQ(report.partition_saved_bytes, 4u * 6 * 3);
  EXPECT_EQ(report.gathered_bytes, 4u * 6 * 4);
}

// Packed, sliced, to the host, to the disk; and all the way back.
TEST(Residency, AValueGoesItsWayInSteps) {
  LayeredGraph g(5);
  move_inputs(
      g, {.partition_activations = true, .cpu_checkpointing = true, .disk_checkpointing = {.path = "/disk"}},
      {.tensor_size = 2, .storage = StorageDType::kBF16});
  EXPECT_EQ(text_of(g.graph).substr(0, text_of(g.graph).find("\na0")), R"(
e(x)
packed/e(e)
kept/e(packed/e)
host/e(kept/e) on device_to_host
disk/e(host/e disk/ring) on disk)");
  std::string back;
  for (const Op& op : g.graph.ops())
    if (op.name.find("fetched/layer0") == 0) back += text_of(g.graph, op) + "\n";
  EXPECT_EQ(back, R"(fetched/layer0/e/host(disk/e disk/ring) on disk after ga3
fetched/layer0/e/packed/part(fetched/layer0/e/host) on host_to_device after ga2
fetched/layer0/e/packed(fetched/layer0/e/packed/part) on gather after ga2
fetched/layer0/e(fetched/layer0/e/packed)
)");
  EXPECT_EQ(g.graph.value(g.graph.find("packed/e")).dtype, DType::kBF16);
}

// Of codes the scale stays on the device.
TEST(Residency, CodesGoTheirWayWithoutTheirScale) {
  LayeredGraph g(3);
  const ResidencyReport report = move_inputs(g, {.partition_activations = true, .cpu_checkpointing = true},
                                             {.tensor_size = 2, .storage = StorageDType::kE4M3});
  EXPECT_EQ(text_of(g.graph).substr(0, text_of(g.graph).find("\na0")), R"(
e(x)
packed/e(e)
kept/e(packed/e/rows)
host/e(kept/e) on device_to_host)");
  std::string back;
  for (const Op& op : g.graph.ops())
    if (op.name.find("fetched/layer0") == 0) back += text_of(g.graph, op) + "\n";
  EXPECT_EQ(back, R"(fetched/layer0/e/packed/part(host/e) on host_to_device after ga2
fetched/layer0/e/packed(fetched/layer0/e/packed/part) on gather after ga2
fetched/layer0/e(fetched/layer0/e/packed packed/e/scale)
)");
  const auto value = [&](const char* name) -> const Value& { return g.graph.value(g.graph.find(name)); };
  EXPECT_EQ(value("packed/e/rows").dtype, DType::kE4M3);
  EXPECT_EQ(value("packed/e/scale").space, MemorySpace::kDevice);
  EXPECT_EQ(value("fetched/layer0/e").dtype, DType::kF32);
  EXPECT_EQ(value("host/e").bytes(), 4u * 6 / 2) << "half of the codes";
  EXPECT_EQ(report.packed_saved_bytes, 2 * (4u * 6 * 3 - 4)) << "of e and b0";
}

// Of five layers the last stays; the two before it are still in the buffer when they are wanted.
TEST(Residency, WhatIsWantedSoonDoesNotGoToTheDisk) {
  LayeredGraph g(5);
  const ResidencyReport report =
      move_inputs(g, {.cpu_checkpointing = true, .disk_checkpointing = {.path = "/disk"}});
  EXPECT_EQ(report.host_values, 4);
  EXPECT_EQ(report.disk_values, 2);
  EXPECT_EQ(g.graph.find("disk/b1"), kNone);
  EXPECT_NE(g.graph.find("disk/b0"), kNone);
}

TEST(Residency, KeepLastKeepsSoManyLayersOnTheDevice) {
  LayeredGraph g(5);
  const ResidencyReport report = move_inputs(g, {.cpu_checkpointing = true}, {.keep_last = 3});
  EXPECT_EQ(report.host_values, 2);
  EXPECT_EQ(report.read_in_last_layers.host, 3);
  EXPECT_EQ(report.keep_last_that_matters, 3);
}

TEST(Residency, AFetchBeginsSoManyLayersAhead) {
  const auto fetch_of_e = [](int64_t prefetch) {
    LayeredGraph g(4);
    move_inputs(g, {.cpu_checkpointing = true}, {.prefetch = prefetch});
    for (const Op& op : g.graph.ops())
      if (op.name == "fetched/layer0/e") return text_of(g.graph, op);
    return std::string();
  };
  const std::string fetch = "fetched/layer0/e(host/e) on host_to_device after ";
  EXPECT_EQ(fetch_of_e(0), fetch + "ga1") << "with the backward of its own layer";
  EXPECT_EQ(fetch_of_e(1), fetch + "ga2");
  EXPECT_EQ(fetch_of_e(2), fetch + "ga3");
  EXPECT_EQ(fetch_of_e(9), fetch + "f") << "backward's first op is the earliest";
}

// Backward comes to the deepest layer first, and so do the copies of several layers at one place.
TEST(Residency, WhatIsFetchedAtOnePlaceComesDeepestFirst) {
  LayeredGraph g(4);
  move_inputs(g, {.cpu_checkpointing = true}, {.prefetch = 4});
  std::string order;
  for (const Op& op : g.graph.ops())
    if (op.stream == StreamId::kHostToDevice) order += op.name + " ";
  EXPECT_EQ(order, "fetched/layer2/b1 fetched/layer1/b0 fetched/layer0/e ");
}

TEST(Residency, ThePoolHasWhatIsSavedAndFetched) {
  LayeredGraph g(2);
  move_inputs(g, {.cpu_checkpointing = true}, {.pooled = true});
  std::string pooled;
  for (const Value& value : g.graph.values())
    if (value.pooled) pooled += value.name + " ";
  EXPECT_EQ(pooled, "e b0 b1 f fetched/layer0/e ") << "and nothing in host memory";
}

TEST(Residency, StatisticsAreNotPacked) {
  SmallGraph g;
  const ValueId x = g.op("e", {g.input("x")});
  g.enter(Phase::kForward, 0);
  const Op norm = g.ops.append("norm", "layer_norm", {{"epsilon", 1e-5}},
                               {x, g.input("weight", {6}), g.input("bias", {6})});
  g.enter(Phase::kForward, 1);
  g.op("next", {norm.outputs[0]});
  g.enter(Phase::kBackward, 0);
  for (ValueId v : norm.outputs) g.op("reads " + g.graph.value(v).name, {v});
  const SavedActivations saved(g.graph);
  const ResidencyReport report = place_saved_activations(
      g.graph, g.registry, saved, make_plan(g.graph, saved, {}), {.storage = StorageDType::kBF16});
  EXPECT_EQ(report.packed_values, 1);
  EXPECT_NE(g.graph.find("packed/norm"), kNone);
  EXPECT_EQ(g.graph.find("packed/norm/mean"), kNone);
}

}  // namespace
}  // namespace recollect::test::residency_test
