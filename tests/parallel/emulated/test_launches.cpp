// How many kernels a layer of a model takes on a GPU, forward and backward: each costs its launch, and most a pass over
// memory. Counted while the cuda backend's kernels run on the CPU (tests/gpu/emulation); a product is one, and so is our
// own attention.
#include <gtest/gtest.h>

#include "comm/collective_ops.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"
#include "parallel/models/families.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"
#include "tests/gpu/emulation/traffic.h"

namespace recollect::test::launches_test {
namespace {

int64_t launches(const std::string& type, int64_t layers, double dropout) {
  const ModelFamily& family = model_family(type);
  ModelValues values = family.sketch(
      family,
      {.vocabulary = 32, .longest = 8, .width = 64, .layers = layers, .heads = 4, .dropout = dropout});
  family.complete(values);
  OpRegistry registry;
  register_engine_ops(registry);
  register_comm_ops(registry);
  Graph graph;
  const Model model = family.build(graph, registry, values, {.task = Task::kCausalLm},
                                   {.samples = 2, .sequence_length = 8}, {}, DType::kBF16);
  std::vector<ValueId> targets;
  for (const Parameter& p : model.parameters) targets.push_back(p.value);
  differentiate(graph, registry, targets, {{.value = model.loss}});
  KernelTable kernels;
  emulation::register_kernels(kernels);
  GraphRunner runner(graph, kernels, {.token_stride = 8});
  for (const auto& [name, value] : model.inputs)
    write(runner.tensor(value),
          random_numbers({.shape = graph.value(value).shape, .fill = Fill::kIds, .limit = 8}, 1));
  write(runner.tensor(model.scale), {1});
  for (const Parameter& p : model.parameters)
    write(runner.tensor(p.value),
          random_numbers({.shape = graph.value(p.value).shape, .scale = 0.3}, p.value));
  const emulation::Traffic traffic;
  runner.run();
  runner.expect_intact();
  int64_t products = 0;  // which are plain loops here
  for (const Op& op : graph.ops()) products += op.def->unit == Unit::kGemm;
  return traffic.launches() + products;
}

TEST(Launches, OfALayerStayWithinTheirBudget) {
  struct Budget {
    const char* type;
    double dropout;
    int64_t launches;
  };
  for (const auto& [type, dropout, most] : {Budget{"gpt2", 0, 34}, {"gpt2", 0.1, 34}, {"llama", 0, 27}}) {
    const int64_t two = launches(type, 2, dropout), three = launches(type, 3, dropout);
    EXPECT_EQ(three - two, most)  // who makes it fewer lowers it
        << type << (dropout > 0 ? " with dropout" : "");
    EXPECT_EQ(launches(type, 4, dropout) - three, three - two) << "each layer takes as many";
  }
}

}  // namespace
}  // namespace recollect::test::launches_test
