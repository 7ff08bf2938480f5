// What each policy saves of graphs of a few ops a layer.
#include <gtest/gtest.h>

#include "checkpointing/policies.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::policies_test {
namespace {

// The names that a plan saves, in program order.
std::string saved_by(const SmallGraph& g, const CheckpointingSettings& settings) {
  const SavedActivations saved(g.graph);
  const Plan plan = make_plan(g.graph, saved, settings);
  std::vector<ValueId> values;
  for (ValueId v : saved.values())
    if (plan.values.at(g.graph.value(v).name).save) values.push_back(v);
  return names_of(g.graph, values);
}

TEST(Policies, EachSavesWhatItSays) {
  const LayeredGraph five(5);
  const auto saved = [&](CheckpointingMode mode, int64_t k = 1) {
    return saved_by(five, {.mode = mode, .k = k});
  };
  using enum CheckpointingMode;
  EXPECT_EQ(saved(kNone), "e a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 f");
  EXPECT_EQ(saved(kFull), "e b0 b1 b2 b3 b4 f") << "b4 is what f reads";
  EXPECT_EQ(saved(kEveryK, 2), "e b0 b2 a3 b3 a4 b4 f");
  EXPECT_EQ(saved(kEveryK, 5), saved(kNone));
  EXPECT_EQ(saved(kSqrt), "e b1 a2 b2 a3 b3 a4 b4 f") << "segments of three";
  EXPECT_EQ(saved(kRecursive), "e b1 b2 b3 a4 b4 f");
  EXPECT_EQ(saved(kConstantMemory), "e b3 a4 b4 f");
}

TEST(Policies, SayWhatARecomputationLeavesBehind) {
  const LayeredGraph g(3);
  const SavedActivations saved(g.graph);
  const auto replay = [&](CheckpointingMode mode) {
    return make_plan(g.graph, saved, {.mode = mode}).replay;
  };
  EXPECT_EQ(replay(CheckpointingMode::kFull), Replay::kSegment);
  EXPECT_EQ(replay(CheckpointingMode::kRecursive), Replay::kBisect);
  EXPECT_EQ(replay(CheckpointingMode::kConstantMemory), Replay::kNothing);
}

TEST(Policies, WithoutLayersEverythingIsSaved) {
  const LayeredGraph none(0);
  for (std::size_t i = 0; i < kSpellings<CheckpointingMode>.size(); ++i)
    EXPECT_EQ(saved_by(none, {.mode = static_cast<CheckpointingMode>(i)}), "e f") << i;
}

// A layer of norm, attention and dropout between ranks that share the norm's output.
struct Layer : SmallGraph {
  Layer() {
    const ValueId x = op("e", {input("x")});
    enter(Phase::kForward, 0);
    const ValueId n =
        op("norm", "layer_norm", {x, input("weight", {6}), input("bias", {6})}, {{"epsilon", 1e-5}});
    const ValueId shared =
        op("shared", "copy_to_ranks", {n}, {{"axis", std::string("tensor")}, {"size", int64_t{2}}});
    const ValueId d = op("dropped", "dropout", {shared}, {{"p", 0.5}});
    const ValueId o = op("core", "attention", {d},
                         {{"heads", int64_t{1}},
                          {"kv_heads", int64_t{1}},
                          {"kv_group", int64_t{1}},
                          {"causal", int64_t{1}},
                          {"head_size", int64_t{2}},
                          {"sequence_length", int64_t{4}},
                          {"first_head", int64_t{0}},
                          {"all_heads", int64_t{1}}});
    const std::vector<ValueId> read = {x, n, shared, d, o, graph.find("norm/mean"), graph.find("core/lse")};
    enter(Phase::kBackward, 0);
    for (ValueId v : read) op("reads " + graph.value(v).name, {v});
  }
};

TEST(Policies, SelectiveRecomputesTheGroupsOfOps) {
  const Layer g;
  const auto saved = [&](std::vector<std::string> groups) {
    return saved_by(g, {.mode = CheckpointingMode::kSelective, .recompute = std::move(groups)});
  };
  EXPECT_EQ(saved({"attention"}), "e norm norm/mean shared dropped core/lse") << "statistics stay";
  EXPECT_EQ(saved({"norm"}), "e norm/mean dropped core core/lse")
      << "and what hands a norm to the ranks goes";
  EXPECT_EQ(saved({"dropout"}), "e norm norm/mean shared core core/lse");
  EXPECT_EQ(saved({"attention", "dropout", "norm"}), "e norm/mean core/lse");
  EXPECT_EQ(saved({}), saved(cheap_groups()));
}

// A block goes with all that its ops make in groups: not its product's sum over ranks, not its statistics.
TEST(Policies, SelectiveRecomputesABlock) {
  SmallGraph g;
  const ValueId x = g.op("e", {g.input("x")});
  g.enter(Phase::kForward, 0);
  const ValueId before = g.op("before", "dropout", {x}, {{"p", 0.5}});
  g.ops.common().block = "mlp";
  const ValueId product = g.op("product", "linear", {before, g.input("w", {6, 6})});
  const ValueId sum =
      g.op("sum", "all_reduce", {product}, {{"axis", std::string(kTensorAxis)}, {"size", int64_t{2}}});
  const ValueId dropped = g.op("dropped", "dropout", {sum}, {{"p", 0.5}});
  g.ops.common().block.clear();
  g.enter(Phase::kBackward, 0);
  for (ValueId v : {x, before, product, sum, dropped}) g.op("reads " + g.graph.value(v).name, {v});
  EXPECT_EQ(saved_by(g, {.mode = CheckpointingMode::kSelective, .recompute = {"mlp"}}), "e before sum");
}

// Of layers, and of what goes into the first; and only what is saved.
TEST(Policies, SwitchesApplyToWhatLayersSave) {
  LayeredGraph g(2);
  g.graph.value(g.graph.find("b0")).placement = Placement::sharded_over(kTensorAxis);
  const Plan plan = make_plan(g.graph, SavedActivations(g.graph),
                              {.mode = CheckpointingMode::kFull,
                               .partition_activations = true,
                               .cpu_checkpointing = true,
                               .disk_checkpointing = {.path = "/disk"}});
  EXPECT_EQ(to_yaml(plan), R"(replay: segment
values:
  a0: recompute
  a1: recompute
  b0: host+disk
  b1: partitioned+host+disk
  e: partitioned+host+disk
  f: device
)");
}

}  // namespace
}  // namespace recollect::test::policies_test
