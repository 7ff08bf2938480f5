// What each policy saves of graphs of a few ops a layer.
#include <gtest/gtest.h>

#include "checkpointing/policies.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::policies_test {
namespace {

// The names that a plan saves, in program order.
std::string saved_by(const SmallGraph& g, const PolicySettings& settings) {
  const SavedActivations saved(g.graph);
  const Plan plan = make_plan(g.graph, saved, settings);
  std::vector<ValueId> values;
  for (ValueId v : saved.values())
    if (plan.values.at(g.graph.value(v).name).save) values.push_back(v);
  return names_of(g.graph, values);
}

TEST(Policies, EachSavesWhatItSays) {
  const LayeredGraph five(5);
  EXPECT_EQ(saved_by(five, {.mode = "none"}), "e a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 f");
  EXPECT_EQ(saved_by(five, {.mode = "full"}), "e b0 b1 b2 b3 b4 f") << "b4 is what f reads";
  EXPECT_EQ(saved_by(five, {.mode = "every_k", .k = 2}), "e b0 b2 a3 b3 a4 b4 f");
  EXPECT_EQ(saved_by(five, {.mode = "every_k", .k = 5}), saved_by(five, {.mode = "none"}));
  EXPECT_EQ(saved_by(five, {.mode = "sqrt"}), "e b1 a2 b2 a3 b3 a4 b4 f") << "segments of three";
  EXPECT_EQ(saved_by(five, {.mode = "recursive"}), "e b1 b2 b3 a4 b4 f");
  EXPECT_EQ(saved_by(five, {.mode = "constant_memory"}), "e b3 a4 b4 f");
  EXPECT_EQ(saved_by(five, {.mode = "poor"}), saved_by(five, {.mode = "constant_memory"}));
}

TEST(Policies, SayWhatARecomputationLeavesBehind) {
  const LayeredGraph g(3);
  const SavedActivations saved(g.graph);
  const auto replay = [&](const char* mode) { return make_plan(g.graph, saved, {.mode = mode}).replay; };
  EXPECT_EQ(replay("full"), Replay::kSegment);
  EXPECT_EQ(replay("recursive"), Replay::kBisect);
  EXPECT_EQ(replay("constant_memory"), Replay::kNothing);
}

TEST(Policies, WithoutLayersEverythingIsSaved) {
  const LayeredGraph none(0);
  for (const char* mode : {"none", "full", "every_k", "sqrt", "selective", "recursive", "constant_memory"})
    EXPECT_EQ(saved_by(none, {.mode = mode}), "e f") << mode;
}

TEST(Policies, AnUnknownModeIsAnError) {
  const LayeredGraph g(1);
  EXPECT_THROW(make_plan(g.graph, SavedActivations(g.graph), {.mode = "most"}), Error);
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
                         {{"heads", int64_t{1}}, {"head_size", int64_t{2}}, {"sequence_length", int64_t{4}}});
    const std::vector<ValueId> read = {x, n, shared, d, o, graph.find("norm/mean"), graph.find("core/lse")};
    enter(Phase::kBackward, 0);
    for (ValueId v : read) op("reads " + graph.value(v).name, {v});
  }
};

TEST(Policies, SelectiveRecomputesTheGroupsOfOps) {
  const Layer g;
  const auto saved = [&](std::vector<std::string> groups) {
    return saved_by(g, {.mode = "selective", .recompute = std::move(groups)});
  };
  EXPECT_EQ(saved({"attention"}), "e norm norm/mean shared dropped core/lse") << "statistics stay";
  EXPECT_EQ(saved({"norm"}), "e norm/mean dropped core core/lse")
      << "and what hands a norm to the ranks goes";
  EXPECT_EQ(saved({"dropout"}), "e norm norm/mean shared core core/lse");
  EXPECT_EQ(saved({"attention", "dropout", "norm"}), "e norm/mean core/lse");
  EXPECT_EQ(saved({}), saved(cheap_groups()));
}

// Of layers, and of what goes into the first; and only what is saved.
TEST(Policies, SwitchesApplyToWhatLayersSave) {
  LayeredGraph g(2);
  g.graph.value(g.graph.find("b0")).placement = Placement::kSharded;
  const Plan plan = make_plan(g.graph, SavedActivations(g.graph),
                              {.mode = "full", .partition = true, .host = true, .disk = true});
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
