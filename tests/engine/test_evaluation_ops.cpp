// Ops in an evaluation: dropout is the identity to the last bit, and the loss makes no gradient.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

struct Backend {
  const char* name;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
};

class EvaluationOps : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { GetParam().register_kernels(kernels_, nullptr); }
  KernelTable kernels_;
};

TEST_P(EvaluationOps, DropoutIsTheIdentity) {
  const Precision precision = GetParam().precision;
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (c.kind != "dropout" && c.kind != "bias_dropout_add" && c.kind != "attention") continue;
    if (c.attributes.real("p") == 0) continue;
    const CaseData data = make_data(c, precision);
    OpCase evaluation = c, without = c;
    evaluation.state.training = false;
    without.attributes.set("p", 0.0);
    const std::vector<Numbers> identity = run_case(without, data, kernels_, precision);
    EXPECT_EQ(run_case(evaluation, data, kernels_, precision), identity) << c.name;
    EXPECT_NE(run_case(c, data, kernels_, precision), identity) << c.name;
    ++compared;
  }
  EXPECT_GE(compared, 12);
}

// And so what it is made of, whose storage a gradient may take over: metrics read it there.
TEST_P(EvaluationOps, TheLossLeavesGradientsAlone) {
  const Precision precision = GetParam().precision;
  OpRegistry registry;
  register_engine_ops(registry);
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (!c.kind.ends_with("_loss") || c.attributes.integer("gradient") == 0) continue;
    const CaseData data = make_data(c, precision);
    const Graph graph = make_graph(c, registry, precision);
    const auto loss = [&](bool training) {
      RunState state = c.state;
      state.training = training;
      GraphRunner runner(graph, kernels_, state);
      for (std::size_t i = 0; i < data.inputs.size(); ++i)
        write(runner.tensor(graph.op(0).inputs[i]), data.inputs[i]);
      const std::vector<std::byte> made_of = runner.bytes(graph.op(0).inputs[0]);
      runner.run_op(0, false);
      runner.expect_intact();
      EXPECT_EQ(runner.bytes(graph.op(0).inputs[0]), made_of) << c.name;
      for (std::size_t i = 1; i < graph.op(0).outputs.size(); ++i) {
        const std::vector<std::byte> bytes = runner.bytes(graph.op(0).outputs[i]);
        const bool untouched =
            std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0xFF}; });
        EXPECT_EQ(untouched, !training) << c.name;
      }
      return read(runner.tensor(graph.op(0).outputs[0]));
    };
    EXPECT_EQ(loss(true), loss(false)) << c.name;
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

INSTANTIATE_TEST_SUITE_P(Backends, EvaluationOps,
                         ::testing::Values(Backend{"reference_double", reference::register_kernels, kDouble},
                                           Backend{"reference_float", reference::register_kernels, kFloat},
                                           Backend{"cpu_float", register_cpu_kernels, kFloat},
                                           Backend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                                           Backend{"cuda_float", emulation::register_kernels, kFloat},
                                           Backend{"cuda_bf16", emulation::register_kernels, kBfloat16}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test
