// What backward needs of forward, on graphs of a few ops.
#include <gtest/gtest.h>

#include "checkpointing/policies.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::saved_activations_test {
namespace {

TEST(SavedActivations, AreTheForwardValuesThatBackwardReads) {
  const LayeredGraph g(2);
  const SavedActivations saved(g.graph);
  EXPECT_EQ(names_of(g.graph, saved.values()), "e a0 b0 a1 b1 f");
  EXPECT_EQ(names_of(g.graph, saved.layer_inputs()), "e b0");
}

TEST(SavedActivations, AreInProgramOrderAndOnceWhoeverReadsThem) {
  SmallGraph g;
  const ValueId x = g.input("x"), a = g.op("a", {x}), b = g.op("b", {a});
  g.op("nobody's", {b});
  g.enter(Phase::kBackward, -1);
  g.op("first", {b, x});
  g.op("second", {a, b});
  EXPECT_EQ(names_of(g.graph, SavedActivations(g.graph).values()), "a b");
}

// What a rank can gather again it need not save: its part is what backward reads in the end.
TEST(SavedActivations, OfAGatheredValueThePartIsSaved) {
  SmallGraph g;
  g.enter(Phase::kForward, 0);
  const ValueId part = g.op("part", {g.input("x")});
  const ValueId whole =
      g.op("whole", "all_gather", {part}, {{"axis", std::string("tensor")}, {"size", int64_t{2}}});
  const ValueId next = g.op("next", {whole});
  g.enter(Phase::kBackward, 0);
  g.op("gradient", {next, whole});
  const SavedActivations saved(g.graph);
  EXPECT_EQ(names_of(g.graph, saved.values()), "part next");
  EXPECT_TRUE(saved.is_gathered(whole));
  EXPECT_FALSE(saved.is_gathered(part));
  EXPECT_FALSE(saved.is_gathered(kNone));
}

TEST(SavedActivations, LeaveOutWhatCannotRunTwice) {
  SmallGraph g;
  const ValueId x = g.input("x");
  const ValueId sum =
      g.graph.add_value({.name = "sum", .shape = {4, 6}, .persistent = false, .accumulator = true});
  g.ops.append("adds", "add", {}, {x, x}, {sum});
  g.enter(Phase::kBackward, -1);
  g.op("reads", {sum, x});
  EXPECT_TRUE(SavedActivations(g.graph).values().empty());
}

TEST(SavedActivations, StatisticsAreWhatStandsBesideAnOpsOutput) {
  SmallGraph g;
  const ValueId x = g.input("x"), weight = g.input("weight", {6}), bias = g.input("bias", {6});
  const Op norm = g.ops.append("norm", "layer_norm", {{"epsilon", 1e-5}}, {x, weight, bias});
  const Op gelu = g.ops.append("gelu", "linear_gelu", {}, {x, g.input("w", {6, 6}), bias});
  const SavedActivations saved(g.graph);
  EXPECT_FALSE(saved.is_statistic(norm.outputs[0]));
  EXPECT_TRUE(saved.is_statistic(norm.outputs[1]));
  EXPECT_TRUE(saved.is_statistic(norm.outputs[2]));
  EXPECT_FALSE(saved.is_statistic(gelu.outputs[0]));
  EXPECT_FALSE(saved.is_statistic(gelu.outputs[1])) << "what GELU is made of is as large";
}

// Every layer reads the table of positions beside its input; backward reads it too. Where samples are packed, it is
// made of positions that came with them.
TEST(SavedActivations, WhatIsMadeOfNothingIsNoLayersInput) {
  for (const bool given : {false, true}) {
    SmallGraph g;
    const ValueId a = g.op("a", {g.input("x")});
    std::vector<ValueId> positions;
    if (given)
      positions.push_back(g.graph.add_value({.name = "positions",
                                             .shape = {1, 4},
                                             .dtype = DType::kI32,
                                             .category = Category::kInput,
                                             .persistent = true}));
    const ValueId table = g.op("table", "rotary_table", positions,
                               {{"sequence_length", int64_t{4}},
                                {"head_size", int64_t{6}},
                                {"theta", 10000.0},
                                {"dtype", std::string("f32")},
                                {"scaling", std::string("default")}});
    g.enter(Phase::kForward, 0);
    const ValueId first = g.op("first", {a, table});
    g.enter(Phase::kForward, 1);
    g.op("second", {first, table});
    g.enter(Phase::kBackward, 1);
    g.op("gradient", {table, first});
    const SavedActivations saved(g.graph);
    EXPECT_EQ(names_of(g.graph, saved.layer_inputs()), "a first");
    EXPECT_EQ(names_of(g.graph, saved.values()), "a table first");
  }
}

// As with post-norm on several tensor ranks, where backward reads what was handed to the ranks.
TEST(SavedActivations, AnInputThatBackwardDoesNotReadServesRecomputationAlone) {
  SmallGraph g;
  const ValueId a = g.op("a", {g.input("x")});
  g.enter(Phase::kForward, 0);
  const ValueId handed = g.op("handed", {a});
  g.enter(Phase::kForward, 1);
  g.op("next", {handed});
  g.enter(Phase::kBackward, 0);
  g.op("gradient", {handed});
  const SavedActivations saved(g.graph);
  EXPECT_EQ(names_of(g.graph, saved.values()), "a handed");
  EXPECT_TRUE(saved.only_begins_layer(a));
  EXPECT_FALSE(saved.only_begins_layer(handed));
  const Plan none = make_plan(g.graph, saved, {.mode = CheckpointingMode::kNone}),
             full = make_plan(g.graph, saved, {.mode = CheckpointingMode::kFull});
  EXPECT_FALSE(none.values.at("a").save);
  EXPECT_TRUE(none.values.at("handed").save);
  EXPECT_TRUE(full.values.at("a").save);
}

TEST(SavedActivations, OfALayerWithTwoInputsIsAnError) {
  SmallGraph g;
  const ValueId a = g.op("a", {g.input("x")}), b = g.op("b", {a});
  g.enter(Phase::kForward, 0);
  g.op("both", {a, b});
  EXPECT_THROW(SavedActivations(g.graph), Error);
}

}  // namespace
}  // namespace recollect::test::saved_activations_test
