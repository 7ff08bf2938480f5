// Plans of dynamic tensor rematerialization: exact peaks within budgets, of layers of a few ops and of a model
// with matrix products.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpointing/op_time.h"
#include "checkpointing/planner/dtr.h"
#include "checkpointing/policies.h"
#include "checkpointing/recompute.h"
#include "engine/graph/differentiate.h"
#include "engine/runtime/program.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::dtr_test {
namespace {

// An op takes as long as its bytes take to move, a product longer.
const DeviceModel kDevice{.name = "by hand", .gemm_f32 = 1e9, .vector_flops = 1e12, .memory_bandwidth = 1e9};
constexpr EvictionHeuristic kAll[] = {EvictionHeuristic::kDtr, EvictionHeuristic::kDtrEq,
                                      EvictionHeuristic::kLocal, EvictionHeuristic::kLru};

// Transient bytes of the program that a plan makes of a graph.
class Compiled {
 public:
  explicit Compiled(const Graph& graph) : graph_(graph), saved_(graph) {
    reference::register_kernels(kernels_);
  }

  uint64_t peak(const Plan& plan) {
    ++compilations_;
    Graph planned = graph_;
    EXPECT_FALSE(recompute(planned, saved_, plan).refusal);
    return compile_without_kernels(std::move(planned), kernels_).predicted().transient_bytes;
  }
  uint64_t peak_of(CheckpointingMode mode) { return peak(make_plan(graph_, saved_, {.mode = mode})); }

  std::optional<DtrResult> dtr(uint64_t budget, EvictionHeuristic heuristic) {
    compilations_ = 0;
    return make_dtr_plan(graph_, saved_, kDevice, budget, heuristic,
                         [&](const Plan& plan) { return peak(plan); });
  }
  int compilations() const { return compilations_; }
  const SavedActivations& saved() const { return saved_; }

 private:
  const Graph& graph_;
  SavedActivations saved_;
  KernelTable kernels_;
  int compilations_ = 0;
};

bool saves_everything(const Plan& plan) {
  return std::all_of(plan.values.begin(), plan.values.end(), [](const auto& v) { return v.second.save; });
}

TEST(Dtr, ThatFitsSavesEverything) {
  const LayeredGraph g(6);
  Compiled compiled(g.graph);
  const uint64_t all = compiled.peak_of(CheckpointingMode::kNone);
  for (EvictionHeuristic h : kAll) {
    const std::optional<DtrResult> result = compiled.dtr(all, h);
    ASSERT_TRUE(result);
    EXPECT_TRUE(saves_everything(result->plan));
    EXPECT_EQ(result->peak, all);
    EXPECT_EQ(result->seconds, 0);
    EXPECT_EQ(result->evictions, 0);
  }
}

// What lives at a time in the simulated program is what the layout finds.
TEST(Dtr, SimulatesTheProgramsOwnPeak) {
  const LayeredGraph g(6);
  Compiled compiled(g.graph);
  const DtrTrace traced = trace_of(g.graph, compiled.saved(), kDevice);
  const uint64_t everything = uint64_t{1} << 60;
  const EvictionRun run = run_with_eviction(traced.trace, everything, EvictionHeuristic::kDtr, 1 << 20);
  EXPECT_EQ(run.peak, compiled.peak_of(CheckpointingMode::kNone));
  EXPECT_EQ(run.cost, traced.trace.ops.size() * traced.trace.ops.front().cost) << "ops of one kind and size";
}

TEST(Dtr, IsTheSameEveryTime) {
  const LayeredGraph g(16);
  Compiled compiled(g.graph);
  const uint64_t budget = compiled.peak_of(CheckpointingMode::kNone) * 6 / 10;
  const auto once = compiled.dtr(budget, EvictionHeuristic::kDtr),
             again = compiled.dtr(budget, EvictionHeuristic::kDtr);
  ASSERT_TRUE(once && again);
  EXPECT_EQ(once->plan, again->plan);
  EXPECT_EQ(once->seconds, again->seconds);
}

// From what saving everything takes down to nothing: every answer is within its budget, and the peak is what the
// plan compiles to.
TEST(Dtr, NeverExceedsItsBudget) {
  const LayeredGraph g(16);
  Compiled compiled(g.graph);
  const uint64_t all = compiled.peak_of(CheckpointingMode::kNone);
  for (EvictionHeuristic h : kAll) {
    uint64_t least = all;
    for (uint64_t percent = 100; percent > 0; percent -= 5) {
      const uint64_t budget = all * percent / 100;
      const std::optional<DtrResult> result = compiled.dtr(budget, h);
      EXPECT_LE(compiled.compilations(), 40);
      if (!result) continue;
      EXPECT_LE(result->peak, budget);
      EXPECT_EQ(result->peak, compiled.peak(result->plan));
      EXPECT_EQ(result->plan.values.size(), compiled.saved().values().size());
      EXPECT_TRUE(percent == 100 || result->evictions > 0);
      least = std::min(least, budget);
    }
    EXPECT_LE(least, all * 6 / 10) << name_of(h);
    EXPECT_FALSE(compiled.dtr(64, h)) << "not even one op fits";
  }
}

// Where the evicted reach over several layers, an ordinary plan holds all that it recomputes of them. Then the inputs
// of layers are held instead; in the memory of mode full there is a plan that takes no longer.
TEST(Dtr, HasAPlanWhereFullHasOne) {
  const LayeredGraph g(16);
  Compiled compiled(g.graph);
  const Plan full = make_plan(g.graph, compiled.saved(), {.mode = CheckpointingMode::kFull});
  Graph planned = g.graph;
  recompute(planned, compiled.saved(), full);
  double seconds = 0;
  for (const Op& op : planned.ops())
    if (op.role == Role::kRecompute) seconds += op_seconds(planned, op, kDevice);
  for (EvictionHeuristic h : kAll) {
    const std::optional<DtrResult> result = compiled.dtr(compiled.peak(full), h);
    ASSERT_TRUE(result) << name_of(h);
    EXPECT_LE(result->seconds, seconds) << name_of(h);
  }
}

// A product, and what is cheap behind it; as training has them.
class Perceptrons : public SmallGraph {
 public:
  explicit Perceptrons(int layers) {
    const Shape weights{64, 64};
    enter(Phase::kForward, -1);
    ValueId x = op("e", {input("x", {32, 64})});
    std::vector<ValueId> targets;
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      enter(Phase::kForward, i);
      targets.push_back(graph.add_value(
          {.name = "w" + n, .shape = weights, .category = Category::kParameter, .persistent = true}));
      const ValueId product = op("product" + n, "linear", {x, targets.back()});
      x = op("cheap" + n, "bias_gelu", {product, input("bias" + n, {64})}, {{"form", std::string("tanh")}});
    }
    enter(Phase::kForward, -1);
    const ValueId seed = input("seed", {32, 64});
    differentiate(graph, registry, targets, {{x, seed}});
  }
};

// Products are dear here: at a budget that recomputing the rest reaches, none runs again.
TEST(Dtr, RecomputesWhatIsCheap) {
  const Perceptrons g(12);
  Compiled compiled(g.graph);
  const uint64_t all = compiled.peak_of(CheckpointingMode::kNone);
  const std::optional<DtrResult> result = compiled.dtr(all * 7 / 10, EvictionHeuristic::kDtrEq);
  ASSERT_TRUE(result);
  EXPECT_LE(result->peak, all * 7 / 10);
  int products = 0, cheap = 0;
  for (const auto& [name, decision] : result->plan.values) {
    products += !decision.save && name.starts_with("product");
    cheap += !decision.save && name.starts_with("cheap");
  }
  EXPECT_GT(cheap, 0);
  EXPECT_EQ(products, 0);

  Graph planned = g.graph;
  recompute(planned, compiled.saved(), result->plan);
  double seconds = 0;
  for (const Op& op : planned.ops())
    if (op.role == Role::kRecompute) seconds += op_seconds(planned, op, kDevice);
  EXPECT_DOUBLE_EQ(result->seconds, seconds);
}

}  // namespace
}  // namespace recollect::test::dtr_test
