// How many kernels a layer of a model takes on a GPU, forward and backward: each costs its launch, and most a pass over
// memory. Counted while the cuda backend's kernels run on the CPU (tests/gpu/emulation); a product is one, which makes the
// gradient of a bias on the way, and so is our own attention.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "comm/collective_ops.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/join_ops.h"
#include "engine/ops/ops.h"
#include "parallel/models/families.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"
#include "tests/gpu/emulation/traffic.h"

namespace recollect::test::launches_test {
namespace {

struct Counted {
  int64_t launches = 0;
  std::map<std::string, int> kinds = {};
  std::vector<std::byte> gradients = {};
};

struct Settings {
  bool joins = true, fp8 = false, gelu_in_products = false;
};

Counted run(const std::string& type, int64_t layers, double dropout, const Settings& settings) {
  const ModelFamily& family = model_family(type);
  ModelValues values = family.sketch(
      family,
      {.vocabulary = 32, .longest = 8, .width = 64, .layers = layers, .heads = 4, .dropout = dropout});
  family.complete(values);
  OpRegistry registry;
  register_engine_ops(registry);
  register_comm_ops(registry);
  Graph graph;
  const Model model = family.build(
      graph, registry, values,
      {.task = Task::kCausalLm, .fp8 = {.on = settings.fp8}, .gelu_in_products = settings.gelu_in_products},
      {.samples = 2, .sequence_length = 8}, {}, DType::kBF16);
  std::vector<ValueId> targets;
  for (const Parameter& p : model.parameters) targets.push_back(p.value);
  const Gradients gradients = differentiate(graph, registry, targets, {{.value = model.loss}});
  join_sums(graph);
  if (settings.joins) join_ops(graph, registry);
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
  Counted result{.launches = traffic.launches()};
  for (const Op& op : graph.ops()) {
    result.launches += op.def->unit == Unit::kGemm;  // products are plain loops here
    ++result.kinds[op.def->name];
  }
  for (const auto& [parameter, gradient] : gradients) {
    const std::byte* data = runner.data(gradient);
    result.gradients.insert(result.gradients.end(), data, data + graph.value(gradient).bytes());
  }
  return result;
}

int64_t launches(const std::string& type, int64_t layers, double dropout, const Settings& settings = {}) {
  return run(type, layers, dropout, settings).launches;
}

TEST(Launches, OfALayerStayWithinTheirBudget) {
  struct Budget {
    const char* type;
    double dropout;
    int64_t launches;
  };
  for (const auto& [type, dropout, most] : {Budget{"gpt2", 0, 24}, {"gpt2", 0.1, 30}, {"llama", 0, 27}}) {
    const int64_t two = launches(type, 2, dropout), three = launches(type, 3, dropout);
    EXPECT_EQ(three - two, most)  // who makes it fewer lowers it
        << type << (dropout > 0 ? " with dropout" : "");
    EXPECT_EQ(launches(type, 4, dropout) - three, three - two) << "each layer takes as many";
  }
}

// Two passes less: GELU's, and its derivative's with the sums of the bias, which are those of the weight's gradient.
TEST(Launches, OfALayerAreFewerWithGeluInItsProducts) {
  const Settings in_products{.gelu_in_products = true};
  EXPECT_EQ(launches("gpt2", 3, 0, in_products) - launches("gpt2", 2, 0, in_products), 21);
  const Counted two = run("gpt2", 2, 0, in_products);
  EXPECT_EQ(two.kinds.at("linear_gelu"), 2);
  EXPECT_EQ(two.kinds.at("linear_backward_input_gelu"), 2);
  EXPECT_EQ(two.kinds.count("gelu_backward") + two.kinds.count("bias_gelu"), 0u);
}

// Of two layers: in the first the norm before attention follows no sum, and behind the last stands one more.
TEST(Launches, OfJoinedOpsGiveTheBitsOfTwo) {
  const Counted apart = run("gpt2", 2, 0, {.joins = false}), joined = run("gpt2", 2, 0, {});
  EXPECT_EQ(apart.kinds.count("residual_norm"), 0u);
  EXPECT_EQ(joined.kinds.at("residual_norm"), 4);
  EXPECT_EQ(apart.launches - joined.launches, 4);
  EXPECT_TRUE(apart.gradients == joined.gradients);
  EXPECT_EQ(run("gpt2", 2, 0.1, {}).kinds.count("residual_norm"), 0u) << "what drops is a pass by itself";
}

// With FP8 what is quantised behind its making needs no launch to find its largest number. The last norm is the head's.
TEST(Launches, OfOpsWithTheirCodesGiveTheBitsOfTwo) {
  struct Joined {
    const char* type;
    std::map<std::string, int> kinds;
  };
  for (const auto& [type, kinds] :
       {Joined{"gpt2",
               {{"layer_norm_quantise", 1},
                {"residual_norm_quantise", 3},
                {"residual_norm", 1},
                {"bias_gelu_quantise", 2}}},
        Joined{"llama",
               {{"rms_norm_quantise", 4}, {"swiglu_quantise", 2}, {"swiglu_backward_quantise", 2}}}}) {
    const Counted apart = run(type, 2, 0, {.joins = false, .fp8 = true}),
                  joined = run(type, 2, 0, {.fp8 = true});
    int64_t fewer = 0;
    for (const auto& [kind, count] : kinds) {
      EXPECT_EQ(apart.kinds.count(kind), 0u) << kind;
      EXPECT_EQ(joined.kinds.count(kind) ? joined.kinds.at(kind) : 0, count) << type << " " << kind;
      // That of a residual with its codes is one of three ops.
      fewer += count * (kind == "residual_norm_quantise" ? 2 : 1);
    }
    EXPECT_EQ(apart.launches - joined.launches, fewer) << type;
    EXPECT_TRUE(apart.gradients == joined.gradients) << type;
  }
}

}  // namespace
}  // namespace recollect::test::launches_test
