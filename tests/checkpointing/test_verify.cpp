// Where hashes are made and compared, and what a difference is called.
#include <gtest/gtest.h>

#include "checkpointing/policies.h"
#include "checkpointing/recompute.h"
#include "checkpointing/residency.h"
#include "tests/checkpointing/run_op.h"
#include "tests/checkpointing/small_graph.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::verify_test {
namespace {

// A recomputed value is compared when it has been made, a fetched one before it is read, so that nothing
// waits for it earlier.
TEST(Verify, ComparesWhatComesAgain) {
  LayeredGraph g(2);
  const SavedActivations saved(g.graph);
  const Plan plan = make_plan(g.graph, saved, {.mode = CheckpointingMode::kFull, .cpu_checkpointing = true});
  std::vector<Reproduction> again = recompute(g.graph, saved, plan).values;
  const ResidencyReport moved = place_saved_activations(g.graph, g.registry, saved, plan, {});
  again.insert(again.end(), moved.returned.begin(), moved.returned.end());
  verify_reproductions(g.graph, g.registry, again);
  EXPECT_EQ(text_of(g.graph), R"(
e(x)
hash/e(e)
host/e(e) on device_to_host
a0(e)
hash/a0(a0)
b0(a0)
a1(b0) after host/e
hash/a1(a1)
b1(a1)
f(b1)
gf(f b1)
fetched/layer0/e(host/e) on host_to_device after gf
recompute/a1(b0)
verify/recompute/a1(recompute/a1 hash/a1)
gb1(gf recompute/a1)
ga1(gb1 b0)
verify/fetched/layer0/e(fetched/layer0/e hash/e)
recompute/a0(fetched/layer0/e)
verify/recompute/a0(recompute/a0 hash/a0)
gb0(ga1 recompute/a0)
ga0(gb0 fetched/layer0/e)
)");
  const auto verifies = [](const Op& op) { return op.role == Role::kVerify; };
  EXPECT_EQ(std::count_if(g.graph.ops().begin(), g.graph.ops().end(), verifies), 3);
}

// Recomputed for two layers, it is hashed once.
TEST(Verify, HashesAnOriginalOnce) {
  LayeredGraph g(2);
  const SavedActivations saved(g.graph);
  Plan plan = plan_to_save(g.graph, saved, {"e", "b1", "f"});
  plan.replay = Replay::kNothing;
  verify_reproductions(g.graph, g.registry, recompute(g.graph, saved, plan).values);
  std::map<std::string, int> ops;
  for (const Op& op : g.graph.ops()) ++ops[op.name];
  EXPECT_EQ(ops["hash/a0"], 1);
  EXPECT_EQ(ops["verify/recompute/a0"], 2);
}

TEST(Verify, NamesTheValueTheLayerTheRankAndTheStep) {
  SmallGraph g;
  g.enter(Phase::kForward, 7);
  const ValueId x = g.input("x", {4}), made = g.op("made", {x}), again = g.op("again", {x});
  const ValueId hash = g.op("hash", "checkpoint_hash", {made});
  g.ops.append("verify", "checkpoint_verify", {{"value", std::string("made")}, {"layer", int64_t{7}}},
               {again, hash});
  KernelTable kernels;
  register_verify_kernels(kernels, 3);
  std::vector<float> numbers = {1, 2, 3, 4};
  std::vector<int64_t> hashed(1);
  const Tensor value = tensor_of(numbers, {4}, DType::kF32), digest = tensor_of(hashed, {1}, DType::kI64);
  run_op(kernels, g.graph, g.graph.op(2), {value}, {digest});
  const auto compare = [&] { run_op(kernels, g.graph, g.graph.op(3), {value, digest}, {}); };
  EXPECT_NO_THROW(compare());
  numbers[2] = 3.0000002F;
  expect_error(ExitCode::kIntegrity,
               {"again is not the made that forward made in layer 7", "on rank 3, step 1, micro-batch 0"},
               compare);
}

}  // namespace
}  // namespace recollect::test::verify_test
