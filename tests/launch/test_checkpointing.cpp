// The first promise: whatever is checkpointed, loss, gradients and parameters are the same bits. And its
// twin: a mode that does nothing must fail, so what runs again is counted.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/graph/op_def.h"
#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/training_program.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::checkpointing_test {
namespace {

// Odd sizes: 5 layers, 3 heads of 5, vocabulary 37, sequence 7.
const char* const kOddYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 4, n_inner: 36,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 5, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";

std::vector<std::string> layout(int tensor, const std::string& precision, const std::string& dropout,
                                int accumulation, bool sequence_parallel) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor),
          std::string("parallelism.sequence_parallel=") + (sequence_parallel ? "true" : "false"),
          "training.precision=" + precision,
          "model.resid_pdrop=" + dropout,
          "model.embd_pdrop=" + dropout,
          "model.attn_pdrop=" + dropout,
          "training.gradient_accumulation_steps=" + std::to_string(accumulation)};
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Case {
  int tensor;
  std::string precision, dropout;
  int accumulation;
  bool sequence_parallel;
  int steps;
};

std::vector<std::string> words_of(const Case& c) {
  return with(layout(c.tensor, c.precision, c.dropout, c.accumulation, c.sequence_parallel),
              {"training.max_steps=" + std::to_string(c.steps)});
}

class Exact : public testing::TestWithParam<Case> {};
class ExactSwitches : public Exact {};

TEST_P(Exact, EveryModeGivesTheBitsOfNone) {
  const std::vector<std::string> words = words_of(GetParam());
  const Trained none = train(kOddYaml, words);
  EXPECT_EQ(none.predicted, none.measured);
  for (const std::string_view mode : kModes)
    if (mode != "none")
      expect_same_bits(none, train(kOddYaml, with(words, mode_words(mode))), std::string(mode));
  for (const char* group : {"attention", "mlp", "norm", "activation", "dropout", "[attention, mlp, norm]"})
    expect_same_bits(
        none,
        train(kOddYaml, with(words, {"activation_checkpointing.mode=selective",
                                     std::string("activation_checkpointing.recompute=") + group})),
        group);
}

TEST_P(ExactSwitches, EveryGivesTheBitsOfNone) {
  const Case& c = GetParam();
  const std::vector<std::string> words = words_of(c);
  const Trained none = train(kOddYaml, words);
  for (const std::string_view mode : kModes)
    for (int switches = 1; switches < 8; ++switches) {
      const bool partition = switches & 1, host = switches & 2, pool = switches & 4;
      if (partition && (c.tensor == 1 || c.sequence_parallel)) continue;
      std::vector<std::string> switched = with(
          with(words, mode_words(mode)),
          {std::string("activation_checkpointing.partition_activations=") + (partition ? "true" : "false"),
           std::string("activation_checkpointing.cpu_checkpointing=") + (host ? "true" : "false"),
           std::string("activation_checkpointing.contiguous_checkpointing=") + (pool ? "false" : "true")});
      expect_same_bits(none, train(kOddYaml, switched),
                       std::string(mode) + (partition ? "+partition" : "") + (host ? "+host" : "") +
                           (pool ? "+pool" : ""));
    }
}

// Of a file system in memory where there is one: what is asked here is who waits for whom, many thousand
// times. The other tests of the disk ask one.
std::string quick_folder() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                   : std::filesystem::temp_directory_path().string();
}

// What waits on the disk, straight or through host memory, whole or divided.
TEST_P(ExactSwitches, TheDiskGivesTheBitsOfNone) {
  const Case& c = GetParam();
  const std::vector<std::string> words = words_of(c);
  const Trained none = train(kOddYaml, words);
  for (const std::string_view mode : kModes)
    for (const bool partition : {false, true})
      for (const bool host : {false, true}) {
        if (partition && (c.tensor == 1 || c.sequence_parallel)) continue;
        const std::string key = "activation_checkpointing.";
        const Trained on_disk =
            train(kOddYaml, with(with(words, mode_words(mode)),
                                 {key + "disk_checkpointing.path=" + quick_folder(),
                                  key + "partition_activations=" + (partition ? "true" : "false"),
                                  key + "cpu_checkpointing=" + (host ? "true" : "false")}));
        const std::string what =
            std::string(mode) + (partition ? "+partition" : "") + (host ? "+host" : "") + "+disk";
        expect_same_bits(none, on_disk, what);
        EXPECT_GT(on_disk.measured[0].disk_bytes, 0u) << what;
      }
}

// With dropout every path but that without it is taken, and two ranks take all that four do. Steps of one micro-batch are
// taken by one rank, and by two with sequence parallelism; without it two ranks take steps of four. What crosses from a step
// to the next one has done so after the second. The rest is tests/long's: every case, in many steps.
bool only_long(const Case& c) {
  if (c.tensor == 4) return c.dropout == "0" || c.accumulation == 1 || c.precision == "fp32";
  if (c.tensor == 2 && c.accumulation == 1 && !c.sequence_parallel) return true;
  return c.dropout == "0" && (c.accumulation > 1 || c.sequence_parallel);
}

std::vector<Case> cases(bool long_ones) {
  std::vector<Case> all;
  for (int tensor : {1, 2, 4})
    for (const char* precision : {"fp32", "bf16"})
      for (const char* dropout : {"0", "0.1"})
        for (int accumulation : {1, 4})
          for (bool sequence : {false, true}) {
            const Case c{tensor, precision, dropout, accumulation, sequence, long_ones ? 20 : 5};
            if ((tensor > 1 || !sequence) && (long_ones || !only_long(c))) all.push_back(c);
          }
  return all;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return "Tensor" + std::to_string(c.tensor) + c.precision + (c.dropout == "0" ? "" : "Dropout") +
         "Accumulate" + std::to_string(c.accumulation) + (c.sequence_parallel ? "Sequence" : "");
}

INSTANTIATE_TEST_SUITE_P(All, Exact, testing::ValuesIn(cases(false)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Long, Exact, testing::ValuesIn(cases(true)), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, ExactSwitches, testing::ValuesIn(cases(false)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Long, ExactSwitches, testing::ValuesIn(cases(true)), name_of_case);

// Parts that leave the device and come back only to be gathered from, and what is gathered, are compared too.
TEST(SequenceParallel, PartsThatMoveAreVerified) {
  const std::vector<std::string> words = layout(2, "fp32", "0.1", 1, true);
  const Trained none = train(kOddYaml, words);
  const std::string key = "activation_checkpointing.";
  for (const char* mode : {"none", "selective"})
    for (const char* prefetch : {"0", "2"})
      expect_same_bits(none,
                       train(kOddYaml, with(words, {key + "mode=" + mode, key + "cpu_checkpointing=true",
                                                    key + "keep_last=0", key + "prefetch=" + prefetch,
                                                    key + "verify=true"})),
                       mode);
}

// How often each layer's attention runs in one micro-batch.
int64_t evaluations(const std::string& mode, int layers) {
  Config config =
      read_config_text("test.yaml", kOddYaml,
                       {"model.n_layer=" + std::to_string(layers), "activation_checkpointing.mode=" + mode});
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  const Mesh mesh(*world, training_axes(1, 1));
  const TrainingProgram training = make_training_program(
      config, mesh, kernels_of(config.device.backend, config.device.isa), batch_shape(config));
  int64_t count = 0;
  for (const Op& op : training.program.graph.ops())
    count += op.def->name == "layer_norm" && op.layer >= 0 && op.name.ends_with("attn/norm");
  return count;
}

TEST(Counting, EvaluationsEqualTheory) {
  for (int n : {1, 2, 3, 4, 5, 8, 9, 16}) {
    EXPECT_EQ(evaluations("none", n), n);
    EXPECT_EQ(evaluations("full", n), 2 * n) << n;
  }
  for (int n : {3, 4, 5, 8, 9, 16}) EXPECT_LE(evaluations("sqrt", n), 2 * n - std::sqrt(n) + 1e-9) << n;
  for (int n : {2, 3, 4, 5, 8, 9, 16}) EXPECT_EQ(evaluations("constant_memory", n), n * (n + 1) / 2) << n;
  for (int n : {2, 4, 8, 16}) EXPECT_EQ(evaluations("recursive", n), n + n / 2 * std::log2(n)) << n;
}

}  // namespace
}  // namespace recollect::test::checkpointing_test
