// Recomputation, op by op: six ops forward, and what backward recomputes of them.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "checkpointing/binomial.h"
#include "checkpointing/policies.h"
#include "checkpointing/recompute.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::recompute_test {
namespace {

std::vector<Reproduction> recompute_all_but(SmallGraph& g, const std::vector<std::string_view>& names,
                                            Replay replay = Replay::kSegment) {
  const SavedActivations saved(g.graph);
  Plan plan = plan_to_save(g.graph, saved, names);
  plan.replay = replay;
  return recompute(g.graph, saved, plan).values;
}

// Inputs of layers but the last, as forward left them or recomputed, that some op of backward still reads.
int most_inputs_at_a_time(const Graph& graph, int layers) {
  std::map<std::string, bool> is_input{{"e", true}};
  for (int i = 0; i + 2 < layers; ++i) is_input["b" + std::to_string(i)] = true;
  std::vector<std::pair<OpId, OpId>> lives;
  for (ValueId v : graph.value_ids()) {
    const std::string& name = graph.value(v).name;
    if (!is_input.contains(name.starts_with("recompute/") ? name.substr(10) : name)) continue;
    OpId last = kNone;
    for (OpId id : graph.op_ids())
      for (ValueId in : graph.op(id).inputs)
        if (in == v && graph.op(id).phase == Phase::kBackward) last = id;
    lives.emplace_back(graph.value(v).producer, last);
  }
  int most = 0;
  for (OpId id : graph.op_ids())
    if (graph.op(id).phase == Phase::kBackward)
      most = std::max(most, static_cast<int>(std::count_if(lives.begin(), lives.end(), [&](const auto& life) {
                        return life.first < id && id <= life.second;
                      })));
  return most;
}

TEST(Recompute, OfNothingChangesNothing) {
  LayeredGraph g(2);
  const std::string before = text_of(g.graph);
  EXPECT_TRUE(recompute_all_but(g, {"e", "a0", "b0", "a1", "b1", "f"}).empty());
  EXPECT_EQ(text_of(g.graph), before);
}

// a1 is recomputed from b0, which is saved; nobody reads b1 but f's backward, which has it.
TEST(Recompute, ClonesWhatIsLackingJustBeforeItsFirstUse) {
  LayeredGraph g(2);
  const std::vector<Reproduction> made = recompute_all_but(g, {"e", "b0", "b1", "f"});
  EXPECT_EQ(text_of(g.graph, Phase::kBackward), R"(
gf(f b1)
recompute/a1(b0)
gb1(gf recompute/a1)
ga1(gb1 b0)
recompute/a0(e)
gb0(ga1 recompute/a0)
ga0(gb0 e)
)");
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(g.graph.value(made[0].original).name, "a1");
  EXPECT_EQ(g.graph.value(made[0].again).name, "recompute/a1");
}

// Where nothing is saved on the way, all of it runs again, once, as part of the layer that asks for it.
TEST(Recompute, RunsASegmentOnce) {
  LayeredGraph g(2);
  recompute_all_but(g, {"b1", "f"});
  EXPECT_EQ(text_of(g.graph, Phase::kBackward), R"(
gf(f b1)
recompute/e(x)
recompute/a0(recompute/e)
recompute/b0(recompute/a0)
recompute/a1(recompute/b0)
gb1(gf recompute/a1)
ga1(gb1 recompute/b0)
gb0(ga1 recompute/a0)
ga0(gb0 recompute/e)
)");
  EXPECT_EQ(g.graph.value(g.graph.find("recompute/e")).layer, 1);
}

TEST(Recompute, WithoutReplayEveryLayerStartsAgain) {
  LayeredGraph g(3);
  recompute_all_but(g, {"e", "b2", "f"}, Replay::kNothing);
  EXPECT_EQ(text_of(g.graph, Phase::kBackward), R"(
gf(f b2)
recompute/a0(e)
recompute/b0(recompute/a0)
recompute/a1(recompute/b0)
recompute/b1(recompute/a1)
recompute/a2(recompute/b1)
gb2(gf recompute/a2)
ga2(gb2 recompute/b1)
recompute/a0(e)
recompute/b0(recompute/a0)
recompute/a1(recompute/b0)
gb1(ga2 recompute/a1)
ga1(gb1 recompute/b0)
recompute/a0(e)
gb0(ga1 recompute/a0)
ga0(gb0 e)
)");
}

// On the way to layer 3 the midpoint, layer 2's input, is held; layer 1 then starts from the end again.
TEST(Recompute, BisectionHoldsTheMidpoints) {
  LayeredGraph g(4);
  recompute_all_but(g, {"e", "b3", "f"}, Replay::kBisect);
  std::map<std::string, int> runs;
  for (const Op& op : g.graph.ops())
    if (op.role == Role::kRecompute) ++runs[op.name];
  EXPECT_EQ(runs["recompute/a3"], 1);
  EXPECT_EQ(runs["recompute/a2"], 2) << "for layer 3 and for layer 2, which starts from b1";
  EXPECT_EQ(runs["recompute/a1"], 2) << "for layers 3 and 1";
  EXPECT_EQ(runs["recompute/a0"], 3) << "for layers 3, 1 and 0";
}

// Griewank and Walther's numbers: layers, inputs held at a time, layers that run forward in all.
TEST(Recompute, BinomialReplayRunsAsFewLayersAsCanBe) {
  for (const auto& [layers, held, evaluations] :
       {std::array{24, 3, 85}, {24, 4, 75}, {96, 4, 450}, {96, 12, 279}, {7, 1, 28}, {5, 4, 9}}) {
    SCOPED_TRACE(layers);
    EXPECT_EQ(binomial_evaluations(layers, held), evaluations);
    LayeredGraph g(layers);
    const SavedActivations saved(g.graph);
    const Plan plan = plan_of(make_binomial_draft(g.graph, saved, held, {}), g.graph, saved);
    int inputs = 0;
    for (std::size_t i = 0; i + 1 < saved.layer_inputs().size(); ++i)
      inputs += plan.values.at(g.graph.value(saved.layer_inputs()[i]).name).save ? 1 : 0;
    EXPECT_EQ(inputs, held);
    recompute(g.graph, saved, plan);
    int runs = layers;
    for (const Op& op : g.graph.ops()) runs += op.role == Role::kRecompute && op.name[10] == 'a' ? 1 : 0;
    EXPECT_EQ(runs, evaluations);
    EXPECT_LE(most_inputs_at_a_time(g.graph, layers), held + 1) << "and the one on the way";
  }
}

// No way to divide the layers is better, whatever the closed form says.
TEST(Recompute, BinomialEvaluationsAreTheLeastOfAllDivisions) {
  constexpr int kLayers = 40, kHeld = 7;
  std::vector<std::vector<int64_t>> least(kHeld + 1, std::vector<int64_t>(kLayers + 1, 0));
  for (int held = 1; held <= kHeld; ++held)
    for (int layers = 1; layers <= kLayers; ++layers) {
      int64_t& best = least[held][layers] = layers * (layers - 1) / 2;
      for (int at = 1; held > 1 && at < layers; ++at)
        best = std::min(best, at + least[held - 1][layers - at] + least[held][at]);
      EXPECT_EQ(binomial_evaluations(layers, held), best + layers);
      if (held == 1 || layers == 1) continue;
      const int64_t at = binomial_split(layers, held);
      EXPECT_EQ(at + least[held - 1][layers - at] + least[held][at], best);
    }
}

TEST(Recompute, CountsWhatItAdds) {
  LayeredGraph g(2);
  recompute_all_but(g, {"e", "b0", "b1", "f"});
  EXPECT_EQ(recomputed_flops(g.graph), 2 * 4 * 6) << "a0 and a1, an addition for each element";
  EXPECT_EQ(gathered_again(g.graph), GatheredAgain{});
}

TEST(Recompute, APlanWithoutAWordOnAValueIsAnError) {
  LayeredGraph g(1);
  EXPECT_THROW(recompute(g.graph, SavedActivations(g.graph), {}), Error);
}

// Every layer would be run again for each one behind it: 2 n (n + 1) / 2 ops.
TEST(Recompute, TooManyOpsAreRefused) {
  LayeredGraph g(520);
  const SavedActivations saved(g.graph);
  Plan plan = plan_to_save(g.graph, saved, {"e"});
  plan.replay = Replay::kNothing;
  const Recomputed recomputed = recompute(g.graph, saved, plan);
  ASSERT_TRUE(recomputed.refusal);
  EXPECT_EQ(recomputed.refusal->code(), ExitCode::kConfiguration);
  EXPECT_NE(std::string(recomputed.refusal->what()).find("more than 262144 ops"), std::string::npos);
  EXPECT_TRUE(recomputed.values.empty());
}

// part -> whole = all_gather(part) -> next; backward of `next` reads the whole.
struct Gathering : SmallGraph {
  Gathering() {
    const ValueId x = op("e", {input("x")});
    enter(Phase::kForward, 0);
    const ValueId part = op("part", {x});
    const ValueId whole =
        op("whole", "all_gather", {part}, {{"axis", std::string("tensor")}, {"size", int64_t{2}}});
    const ValueId next = op("next", {whole});
    enter(Phase::kBackward, 0);
    const ValueId first = op("first", {next});
    op("second", {first, whole});
  }
};

TEST(Recompute, WhatWasGatheredIsGatheredAgainWhateverThePlan) {
  Gathering g;
  recompute_all_but(g, {"e", "part", "next"});
  EXPECT_EQ(text_of(g.graph), R"(
e(x)
part(e)
whole(part)
next(whole)
gathered/whole(part) on gather after next
first(next)
second(first gathered/whole)
)");
  const GatheredAgain again = gathered_again(g.graph);
  EXPECT_EQ(again.values, 1);
  EXPECT_EQ(again.gathered_bytes, 8u * 6 * 4);
  EXPECT_EQ(again.saved_bytes, 4u * 6 * 4);
}

// The layer's own recomputation has just gathered it: no second time.
TEST(Recompute, WhatRecomputationHasGatheredIsReadFromThere) {
  Gathering g;
  recompute_all_but(g, {"e", "part"});
  EXPECT_EQ(text_of(g.graph, Phase::kBackward), R"(
recompute/whole(part)
recompute/next(recompute/whole)
first(recompute/next)
second(first recompute/whole)
)");
}

}  // namespace
}  // namespace recollect::test::recompute_test
