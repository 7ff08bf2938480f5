// Collectives of tensor ranks beside products: in any number of pieces a run has the bits and the memory that it has
// with none, checkpointed or not; and by the simulator it waits less.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "launch/program/estimate.h"
#include "tests/launch/planned.h"
#include "tests/launch/stress_probes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::collective_pieces_test {
namespace {

const char* const kRun = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 32, n_embd: 24, n_layer: 2, n_head: 4,
        resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {precision: fp32, micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 28}
)";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 41, hidden_size: 20, num_hidden_layers: 2, num_attention_heads: 8,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 32,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {precision: bf16, micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 28}
)";

Words ranks(int tensor, bool sequence_parallel, int pieces) {
  return {fmt::format("parallelism.tensor_parallel_size={}", tensor),
          fmt::format("parallelism.ranks_per_process={}", tensor),
          fmt::format("parallelism.sequence_parallel={}", sequence_parallel),
          fmt::format("parallelism.collective_pieces={}", pieces)};
}

class Pieces : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Pieces, ChangeNoBits) {
  const auto [tensor, sequence_parallel] = GetParam();
  for (const char* yaml : {kRun, kLlama}) {  // the latter repeats key/value heads on four ranks
    const Trained uncut = train(yaml, ranks(tensor, sequence_parallel, 0));
    for (const int pieces : {1, 3})
      expect_same_bits(uncut, train(yaml, ranks(tensor, sequence_parallel, pieces)),
                       fmt::format("{} pieces", pieces));
    for (const char* mode : {"full", "selective"})
      expect_same_bits(uncut, train(yaml, ranks(tensor, sequence_parallel, 3) + Words{ac("mode=") + mode}),
                       fmt::format("3 pieces, {}", mode));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Pieces, testing::Combine(testing::Values(2, 4), testing::Bool()));

// As test_stress.cpp does.
TEST(CollectivePieces, KeepBitsWhereStreamsAreLateAndFreedMemoryIsPoisoned) {
  uint64_t seed = 1;
  for (const bool sequence_parallel : {false, true}) {
    const Words deeper{"model.n_layer=4"};
    const Trained uncut = train(kRun, deeper + ranks(2, sequence_parallel, 0));
    for (const char* mode : {"none", "full"})
      for (const bool contiguous : {false, true}) {
        std::vector<std::unique_ptr<StressProbe>> probes;
        for (int rank = 0; rank < 2; ++rank) probes.push_back(std::make_unique<StressProbe>(++seed));
        const Words words{ac("mode=") + mode, ac("cpu_checkpointing=true"),
                          ac("contiguous_checkpointing=") + (contiguous ? "true" : "false")};
        const Trained disturbed = train(kRun, deeper + ranks(2, sequence_parallel, 3) + words,
                                        [&](int rank) { return ProgramParts{.probe = probes[rank].get()}; });
        expect_same_bits(uncut, disturbed, fmt::format("{}, contiguous {}", mode, contiguous));
        for (const auto& probe : probes) {
          EXPECT_GT(probe->late_ops(), 0u) << mode;
          EXPECT_GT(probe->poisoned_bytes(), disturbed.measured[0].transient_bytes) << mode;
        }
      }
  }
}

// What is exposed with the pieces that the simulator chooses, as a part of what is exposed with none. On a node with
// cores to spare, whatever this one has.
double left_exposed(const std::string& yaml, const Words& words) {
  const auto exposed = [&](const char* pieces) {
    Config config = planned(yaml, words + Words{std::string("parallelism.collective_pieces=") + pieces});
    config.device.spare_cores = true;
    return seconds_for_collectives(config);
  };
  return exposed("-1") / exposed("0");
}

// A cluster's node of CPUs by the preset of that name: products take far longer than what they hide.
TEST(CollectivePieces, HideMostOnCpus) {
  const std::string yaml = R"(
model: {type: gpt2}
device: {backend: cpu}
training: {micro_batch_size: 2, max_steps: 1}
optimizer: {name: sgd}
data: {format: random, sequence_length: 512}
)";
  for (const int ranks : {2, 4})
    EXPECT_LE(left_exposed(yaml, {fmt::format("parallelism.tensor_parallel_size={}", ranks)}), 0.25) << ranks;
  EXPECT_LE(left_exposed(yaml, {"parallelism.tensor_parallel_size=2", "parallelism.sequence_parallel=true"}),
            0.5);
}

// On eight H100 the collectives of 1.5B parameters in bf16 take as long as everything else: the product beside them
// hides a small part.
TEST(CollectivePieces, HideLittleWhereTheLinkIsWhatTakesTime) {
  const std::string yaml = R"(
model: {type: gpt2, n_positions: 1024, n_embd: 1600, n_layer: 48, n_head: 40}
device: {backend: cpu, model: h100}
training: {precision: bf16, micro_batch_size: 8, max_steps: 1}
optimizer: {name: sgd}
data: {format: random, sequence_length: 1024}
)";
  for (const bool sequence_parallel : {false, true}) {
    const double left =
        left_exposed(yaml, {"parallelism.tensor_parallel_size=8",
                            fmt::format("parallelism.sequence_parallel={}", sequence_parallel)});
    EXPECT_LT(left, 0.98) << sequence_parallel;
    EXPECT_GT(left, 0.5) << sequence_parallel;
  }
}

// What the program says of its pieces, and how many it has.
std::pair<std::string, int64_t> said_of_pieces(const Config& config) {
  const TrainingProgram training = PlannedRank(config, 0, 0).require_plan(config);
  std::string said;
  for (const Remark& remark : training.remarks)
    if (remark.key == "parallelism.collective_pieces") said += remark.sentence;
  return {said, training.checkpointed.pieces};
}

// Ranks whose threads have all cores of the node, as they do unless device.threads says otherwise.
TEST(CollectivePieces, AreNotChosenWhereNoCoreIsSpare) {
  const std::string yaml = R"(
model: {type: gpt2, vocab_size: 256, n_positions: 128, n_embd: 128, n_layer: 4, n_head: 4}
device: {backend: cpu}
parallelism: {tensor_parallel_size: 2}
training: {micro_batch_size: 8, max_steps: 1}
optimizer: {name: sgd}
data: {format: random, sequence_length: 128}
)";
  Config config = planned(yaml, {});
  EXPECT_FALSE(config.device.spare_cores);
  const auto [nothing, none] = said_of_pieces(config);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(nothing, "");
  config.device.spare_cores = true;
  const auto [chosen, some] = said_of_pieces(config);
  EXPECT_GT(some, 0);
  EXPECT_NE(chosen.find("(simulated)"), std::string::npos) << chosen;
  const auto [given, two] = said_of_pieces(planned(yaml, {"parallelism.collective_pieces=2"}));
  EXPECT_EQ(two, 2);
  EXPECT_NE(given.find("(given)"), std::string::npos) << given;
}

TEST(CollectivePieces, ThatNobodyWouldSeeAreRefused) {
  EXPECT_THROW(planned(kRun, {"parallelism.collective_pieces=2"}), Error);
}

}  // namespace
}  // namespace recollect::test::collective_pieces_test
