// Training with products of FP8: no checkpointing setting changes a bit of it, memory is as predicted, and a small model
// learns what it learns without.
#include <gtest/gtest.h>

#include "checkpointing/simulator.h"
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

const char* const kAtEveryUse = "training.fp8_weight_cache=false";
const char* const kBf16 = "training.precision=bf16";

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
  std::vector<Words> settings{{ac("mode=full")},
                              {ac("mode=selective")},
                              {ac("cpu_checkpointing=true")},
                              {kAtEveryUse},
                              {kAtEveryUse, ac("mode=full")}};
  if (tensor > 1 && !sequence_parallel)
    settings.push_back({ac("mode=full"), ac("partition_activations=true")});
  for (const Words& words : settings) expect_same_bits(none, train(kYaml, layout + words), words.back());
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

// How a rank plans to make the codes of weights.
struct WeightCodes {
  int ever = 0, once = 0, at_use = 0;  // ops: of the run, of each step, and where they are used
  uint64_t bytes = 0, least = 0;       // that persist; two a number and a scale for each weight
  uint64_t parameters = 0;             // bytes in all, of the category
  double seconds = 0;                  // of a step
  bool said = false;
};

WeightCodes weight_codes(const Words& words) {
  Config config = read_config_text("test.yaml", kYaml, Words{kBf16} + words);
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  const Program& program = planned.training.program;
  const Graph& graph = program.graph;
  const MemoryLedger::Row& held = program.predicted().at_peak[static_cast<int>(Phase::kBackward)];
  WeightCodes found{.parameters = held[static_cast<int>(Category::kParameter)]};
  found.seconds =
      simulate(graph, program.schedule, planned.training.device, config.training.gradient_accumulation_steps)
          .step_seconds;
  for (const Op& op : graph.ops()) {
    if (op.def->name != "quantise" || graph.value(op.inputs[0]).category != Category::kParameter) continue;
    const bool at_use = op.when == RunWhen::kAlways;
    ++(at_use ? found.at_use : op.when == RunWhen::kOnce ? found.ever : found.once);
    for (const ValueId codes : op.outputs)
      if (graph.value(codes).persistent) found.bytes += aligned(graph.value(codes).bytes());
    if (!at_use) found.least += 2 * static_cast<uint64_t>(graph.value(op.inputs[0]).shape.elements()) + 64;
  }
  for (const Remark& remark : planned.training.remarks) found.said |= remark.key == "fp8_weight_cache";
  return found;
}

TEST(Fp8, CodesOfWeightsAreMadeOnceForSeveralMicroBatches) {
  const Words full{ac("mode=full")};
  const WeightCodes kept = weight_codes(full), at_use = weight_codes(full + Words{kAtEveryUse});
  EXPECT_EQ(kept.once, 4 * 3);
  EXPECT_EQ(kept.at_use, 0);
  EXPECT_EQ(at_use.once, 0);
  EXPECT_GT(at_use.at_use, 2 * 4 * 3) << "forward, backward, and what is recomputed";
  EXPECT_EQ(kept.bytes, kept.least);
  EXPECT_EQ(kept.parameters - at_use.parameters, kept.bytes);
  EXPECT_LT(kept.seconds, at_use.seconds);
  EXPECT_TRUE(kept.said);
  EXPECT_FALSE(at_use.said);
}

TEST(Fp8, CodesOfWeightsAreKeptForNobodyWhereThereIsOneMicroBatchOrWeightsAreNotThere) {
  const Words data{"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
                   "training.global_batch_size=8"};
  for (const Words& words :
       {Words{"training.global_batch_size=2"}, data + Words{"parallelism.zero_stage=3"}}) {
    const WeightCodes found = weight_codes(words);
    EXPECT_EQ(found.once, 0) << words.back();
    EXPECT_EQ(found.at_use, 2 * 4 * 3) << words.back();
    EXPECT_EQ(found.bytes, 0u) << words.back();
  }
  EXPECT_EQ(weight_codes(data + Words{"parallelism.zero_stage=2"}).once, 4 * 3);
}

// Where adapters are trained, or a group says so; with one micro-batch too.
TEST(Fp8, CodesOfFrozenWeightsAreMadeOnceForAllSteps) {
  const Words lora{"lora.rank=2"}, one{"training.global_batch_size=2"};
  for (const Words& words : {lora, lora + one}) {
    const WeightCodes kept = weight_codes(words), at_use = weight_codes(words + Words{kAtEveryUse});
    EXPECT_EQ(kept.ever, 4 * 3) << words.back();
    EXPECT_EQ(kept.once + kept.at_use, 0) << words.back();
    EXPECT_EQ(at_use.at_use, 2 * 4 * 3 - 1)
        << words.back() << ": embeddings are frozen, and need no gradient";
    EXPECT_EQ(kept.bytes, kept.least) << words.back();
    EXPECT_EQ(kept.parameters - at_use.parameters, kept.bytes) << words.back();
    EXPECT_LT(kept.seconds, at_use.seconds) << words.back();
    EXPECT_TRUE(kept.said) << words.back();
  }
  const Words group{"optimizer.groups=[{match: [model.layers.0.*], frozen: true}]"};
  const WeightCodes kept = weight_codes(group);
  EXPECT_EQ(kept.ever, 4);
  EXPECT_EQ(kept.once, 4 * 2);
}

// Counts the runs of the kernels that quantise weights.
class Counted final : public Kernel {
 public:
  Counted(std::unique_ptr<Kernel> kernel, int& runs) : kernel_(std::move(kernel)), runs_(runs) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void run(const KernelArgs& args) override {
    ++runs_;
    kernel_->run(args);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  int& runs_;
};

int runs_for_weights(const Words& words) {
  int runs = 0;
  const auto count = [&runs](TrainingProgram& training) {
    Program& program = training.program;
    for (const OpId id : program.graph.op_ids()) {
      const Op& op = program.graph.op(id);
      if (op.def->name == "quantise" && program.graph.value(op.inputs[0]).category == Category::kParameter)
        program.kernels[id] = std::make_unique<Counted>(std::move(program.kernels[id]), runs);
    }
  };
  train(kYaml, words, [&](int) { return ProgramParts{.edit_program = count, .probe = nullptr}; });
  return runs;
}

// For three steps of two micro-batches, and two evaluations.
TEST(Fp8, WeightsAreQuantisedAsOftenAsIsPlanned) {
  const Words words{kBf16, "training.max_steps=3", "evaluation.every_steps=2", "evaluation.batches=2"},
      lora = words + Words{"lora.rank=2"};
  EXPECT_EQ(runs_for_weights(lora), 4 * 3);
  EXPECT_EQ(runs_for_weights(words), 4 * 3 * (3 + 2));
  EXPECT_EQ(runs_for_weights(lora + Words{kAtEveryUse}), 3 * 2 * (2 * 4 * 3 - 1) + 2 * 2 * 4 * 3);
}

// Of every step anew, and of an evaluation between two; whichever program's micro-batch is the first.
TEST(Fp8, CodesOfWeightsAreThoseOfTheStep) {
  const TemporaryFolder folder;
  std::string text;
  for (int sample = 0; sample < 12; ++sample) {
    text += "{\"input_ids\": [7";
    for (int i = 1; i < (sample % 6 == 2 || sample % 6 == 3 ? 5 : 13); ++i)
      text += ", " + std::to_string(20 * sample + i);
    text += "]}\n";
  }
  const Words three{kBf16, "training.global_batch_size=6"},
      evaluation{"evaluation.every_steps=1", "evaluation.batches=3"},
      divided{kBf16, "training.global_batch_size=8", "parallelism.data_parallel_size=2",
              "parallelism.ranks_per_process=2", "parallelism.zero_stage=2"},
      lengths{"data.format=jsonl", "data.path=" + folder.write("lines.jsonl", text), "data.shuffle=false",
              "data.padding=longest", "data.pad_to_multiple_of=8"};
  const Words one{kBf16, "training.global_batch_size=2", "lora.rank=2"}, lora = three + Words{"lora.rank=2"};
  for (const Words& words : {three + evaluation, three + lengths, lora, lora + evaluation, lora + lengths,
                             one + ranks(2, true), divided, divided + Words{"lora.rank=2"}}) {
    const Trained at_use = train(kYaml, words + Words{kAtEveryUse}), kept = train(kYaml, words);
    EXPECT_EQ(at_use.predicted, at_use.measured) << words.back();
    expect_same_bits(at_use, kept, words.back());
    ASSERT_EQ(at_use.evaluations.size(), kept.evaluations.size());
    for (std::size_t i = 0; i < kept.evaluations.size(); ++i)
      EXPECT_EQ(at_use.evaluations[i].loss, kept.evaluations[i].loss) << words.back();
    EXPECT_GT(kept.predicted[0].persistent_bytes, at_use.predicted[0].persistent_bytes) << words.back();
  }
}

}  // namespace
}  // namespace recollect::test::fp8_test
