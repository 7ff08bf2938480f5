// Training with products of FP8: no checkpointing setting changes a bit of it, memory is as predicted, and a small model
// learns what it learns without.
#include <gtest/gtest.h>

#include "engine/graph/join_ops.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::fp8_test {
namespace {

const char* const kYaml = R"(
model: {type: llama, vocab_size: 256, hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 48, max_position_embeddings: 16, attention_dropout: 0.1,
        initializer_range: 0.1}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 3, fp8: true}
optimizer: {name: adamw, learning_rate: 5e-3}
data: {format: random, sequence_length: 16}
)";

Words ranks(int tensor, bool sequence_parallel) {
  const std::string size = std::to_string(tensor);
  Words words{"parallelism.tensor_parallel_size=" + size, "parallelism.ranks_per_process=" + size};
  if (sequence_parallel) words.push_back("parallelism.sequence_parallel=true");
  return words;
}

struct Layout {
  const char *name, *precision;
  int tensor;
  bool sequence_parallel;
};

class Fp8 : public ::testing::TestWithParam<Layout> {};

TEST_P(Fp8, NoCheckpointingSettingChangesABit) {
  const auto& [name, precision, tensor, sequence_parallel] = GetParam();
  const Words layout =
      ranks(tensor, sequence_parallel) + Words{std::string("training.precision=") + precision};
  const Trained none = train(kYaml, layout);
  EXPECT_EQ(none.predicted, none.measured);
  std::vector<Words> settings{{ac("mode=full")}, {ac("mode=selective")}, {ac("cpu_checkpointing=true")}};
  if (tensor > 1 && !sequence_parallel)
    settings.push_back({ac("mode=full"), ac("partition_activations=true")});
  for (const Words& words : settings) expect_same_bits(none, train(kYaml, layout + words), words.front());
  const Trained without = train(kYaml, layout + Words{"training.fp8=false"});
  EXPECT_NE(none.steps[0].loss, without.steps[0].loss);
  EXPECT_NEAR(none.steps[0].loss, without.steps[0].loss, 0.02 * without.steps[0].loss);
}

INSTANTIATE_TEST_SUITE_P(All, Fp8,
                         ::testing::Values(Layout{"Alone", "bf16", 1, false},
                                           Layout{"Tensor2", "fp32", 2, false},
                                           Layout{"Tensor2Sequence", "bf16", 2, true}),
                         [](const auto& info) { return std::string(info.param.name); });

// Within 5 % of the loss that bf16 reaches.
TEST(Fp8, LearnsWhatBf16Learns) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "what is recollected need not be kept; ";
  const Words words{"training.precision=bf16",   "training.max_steps=40",
                    "model.num_hidden_layers=2", "model.attention_dropout=0",
                    "data.format=text",          "data.path=" + folder.write("text.txt", text)};
  const Trained fp8 = train(kYaml, words), bf16 = train(kYaml, words + Words{"training.fp8=false"});
  EXPECT_LT(fp8.steps.back().loss, 0.5 * fp8.steps.front().loss);
  EXPECT_NEAR(fp8.steps.back().loss, bf16.steps.back().loss, 0.05 * bf16.steps.front().loss);
}

// What linear modules save for backward are codes; what the ranks gather again is saved as it was.
TEST(Fp8, SavesCodesForBackward) {
  for (const bool sequence_parallel : {false, true}) {
    Config config =
        read_config_text("test.yaml", kYaml, ranks(2, sequence_parallel) + Words{"training.precision=bf16"});
    resolve_planned_world(config);
    const PlannedTraining planned = plan_training(config, 0, 0);
    const Graph& graph = planned.training.program.graph;
    int codes = 0, numbers = 0;
    for (const Op& op : graph.ops()) {
      if (op.def->name == "linear_fp8_backward_weight") {
        const Op& quantise = graph.op(graph.value(op.inputs[2]).producer);
        ++(quantise.phase == Phase::kForward ? codes : numbers);
      }
    }
    EXPECT_EQ(codes, sequence_parallel ? 2 * 3 : 4 * 3);  // in a layer: two inputs are gathered
    EXPECT_EQ(numbers, sequence_parallel ? 2 * 3 : 0);
    // What a GPU does at once, in each layer.
    Graph joined = graph;
    join_ops(joined, *planned.training.registry);
    std::map<std::string, int> kinds;
    for (const Op& op : joined.ops()) ++kinds[op.def->name];
    EXPECT_EQ(kinds["swiglu_quantise"], 3);
    EXPECT_EQ(kinds["swiglu_backward_quantise"], 3);
    EXPECT_EQ(kinds["swiglu"] + kinds["swiglu_backward"], 0);
    EXPECT_EQ(kinds["rms_norm_quantise"], sequence_parallel ? 0 : 2 * 3) << "the ranks gather no codes";
  }
}

}  // namespace
}  // namespace recollect::test::fp8_test
