// The halves of a micro-batch that take turns: whatever is checkpointed, the bits are those of accumulating two
// micro-batches of half the size, in the memory that was predicted; and by the simulator collectives are waited for less.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "launch/program/estimate.h"
#include "tests/launch/planned.h"
#include "tests/launch/stress_probes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::launch_halves_test {
namespace {

const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 32, n_embd: 24, n_layer: 3, n_head: 4,
        resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {precision: fp32, micro_batch_size: 4, global_batch_size: 8, max_steps: 2, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 28}
)";
// Its head is not its embedding: each gradient is the sum of one op's.
const char* const kLlama = R"(
model: {type: llama, vocab_size: 41, hidden_size: 20, num_hidden_layers: 2, num_attention_heads: 8,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 32,
        attention_dropout: 0.1, tie_word_embeddings: false, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {precision: bf16, micro_batch_size: 4, global_batch_size: 8, max_steps: 2, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 28}
)";
const char* const kBert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 24,
        max_position_embeddings: 32, type_vocab_size: 2, num_labels: 3, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {precision: fp32, micro_batch_size: 4, global_batch_size: 8, max_steps: 3, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
evaluation: {format: random, batches: 2, every_steps: 1}
data: {format: random, sequence_length: 12}
)";
const Words kHalves = {"parallelism.overlap_halves=true"};

Words ranks(int tensor, bool sequence_parallel) {
  return {fmt::format("parallelism.tensor_parallel_size={}", tensor),
          fmt::format("parallelism.ranks_per_process={}", tensor),
          fmt::format("parallelism.sequence_parallel={}", sequence_parallel)};
}

class Halves : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Halves, HaveTheBitsOfMicroBatchesOfHalfTheSize) {
  const auto [tensor, sequence_parallel] = GetParam();
  const Words words = ranks(tensor, sequence_parallel);
  const Trained apart = train(kLlama, words + Words{"training.micro_batch_size=2"});
  expect_same_bits(apart, train(kLlama, words + kHalves), "halves");
}

TEST_P(Halves, KeepTheirBitsWhateverIsCheckpointed) {
  const auto [tensor, sequence_parallel] = GetParam();
  const Words words = ranks(tensor, sequence_parallel) + kHalves;
  const Trained none = train(kGpt2, words);
  for (const Words& checkpointing :
       {Words{ac("mode=full")}, Words{ac("mode=selective")},
        Words{ac("mode=sqrt"), ac("cpu_checkpointing=true")},
        Words{ac("mode=full"), ac("partition_activations=true"), ac("cpu_checkpointing=true"),
              ac("contiguous_checkpointing=true"), ac("verify=true")}})
    if (!sequence_parallel || checkpointing.size() < 3)  // what is divided already cannot be partitioned
      expect_same_bits(none, train(kGpt2, words + checkpointing), checkpointing.back());
}

INSTANTIATE_TEST_SUITE_P(All, Halves, testing::Combine(testing::Values(2, 4), testing::Bool()));

// Evaluations run forward of the same program, and read the logits of both halves.
TEST(BatchHalves, EvaluateAsMicroBatchesOfHalfTheSizeDo) {
  const Words words = ranks(2, false);
  const Trained apart = train(kBert, words + Words{"training.micro_batch_size=2", "evaluation.batches=4"}),
                halves = train(kBert, words + kHalves);
  expect_same_bits(apart, halves, "halves");
  ASSERT_EQ(halves.evaluations.size(), apart.evaluations.size());
  ASSERT_GE(halves.evaluations.size(), 3u);
  for (std::size_t i = 0; i < halves.evaluations.size(); ++i) {
    EXPECT_EQ(halves.evaluations[i].loss, apart.evaluations[i].loss);
    const MetricList &mine = halves.evaluations[i].metrics, &its = apart.evaluations[i].metrics;
    EXPECT_GT(mine.size(), 0u);
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), its.begin(), its.end()));
  }
}

// As test_stress.cpp does.
TEST(BatchHalves, KeepTheirBitsWhereStreamsAreLateAndFreedMemoryIsPoisoned) {
  uint64_t seed = 1;
  for (const bool sequence_parallel : {false, true}) {
    const Words words = ranks(2, sequence_parallel) + kHalves;
    const Trained calm = train(kGpt2, words);
    for (const char* mode : {"none", "full"}) {
      std::vector<std::unique_ptr<StressProbe>> probes;
      for (int rank = 0; rank < 2; ++rank) probes.push_back(std::make_unique<StressProbe>(++seed));
      const Trained disturbed = train(
          kGpt2, words + Words{ac("mode=") + mode, ac("cpu_checkpointing=true")},
          [&](int rank) { return ProgramParts{.probe = probes[static_cast<std::size_t>(rank)].get()}; });
      expect_same_bits(calm, disturbed, mode);
      for (const auto& probe : probes) EXPECT_GT(probe->late_ops(), 0u) << mode;
    }
  }
}

// ZeRO divides gradients in the middle of a step, and gathers each weight once for both halves.
TEST(BatchHalves, TrainWithEveryStageOfZero) {
  const Words words = ranks(2, false) + kHalves +
                      Words{"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=4",
                            "optimizer.max_grad_norm=0"};
  const Trained whole = train(kGpt2, words);
  for (const int stage : {1, 2, 3}) {
    const Trained divided = train(kGpt2, words + Words{fmt::format("parallelism.zero_stage={}", stage)});
    EXPECT_EQ(divided.gradients, whole.gradients) << stage;
    EXPECT_EQ(divided.parameters, whole.parameters) << stage;
    EXPECT_EQ(divided.predicted, divided.measured) << stage;
  }
}

// The plan that is found for one half is tried with both.
TEST(BatchHalves, StayWithinABudget) {
  const Words words = ranks(2, false) + kHalves;
  const Trained none = train(kGpt2, words), full = train(kGpt2, words + Words{ac("mode=full")});
  const uint64_t most = none.predicted[0].arena_bytes(), least = full.predicted[0].arena_bytes();
  ASSERT_LT(least, most);
  const uint64_t bytes = (most + least) / 2;
  const Trained within = train(kGpt2, words + budget(bytes));
  expect_same_bits(none, within, "auto");
  EXPECT_LE(within.measured[0].arena_bytes(), bytes);
}

// On eight H100 the collectives of 1.5B parameters in bf16 take as long as everything else. A product has little to hide
// them behind; half of a micro-batch has enough, unless sequence parallelism leaves the ranks less to compute.
TEST(BatchHalves, HideWhatProductsCannot) {
  const std::string yaml = R"(
model: {type: gpt2, n_positions: 1024, n_embd: 1600, n_layer: 48, n_head: 40}
device: {backend: cpu, model: h100}
parallelism: {tensor_parallel_size: 8}
training: {precision: bf16, micro_batch_size: 8, max_steps: 1}
optimizer: {name: sgd}
data: {format: random, sequence_length: 1024}
)";
  const auto left = [&](const Words& words) {
    const Words uncut = words + Words{"parallelism.collective_pieces=0"};
    return seconds_for_collectives(planned(yaml, words + kHalves)) /
           seconds_for_collectives(planned(yaml, uncut));
  };
  EXPECT_LE(left({}), 0.1);
  EXPECT_LE(left({ac("mode=full")}), 0.25);
  EXPECT_LE(left({"parallelism.sequence_parallel=true"}), 0.6);
}

// A value of a half is a value, and its copy too.
TEST(BatchHalves, ReportWhatBothDo) {
  const Words words = {"parallelism.tensor_parallel_size=2", ac("mode=full"), ac("cpu_checkpointing=true")};
  const Config halves = planned(kGpt2, words + kHalves), whole = planned(kGpt2, words);
  const ResidencyReport both = PlannedRank(halves, 0, 0).require_plan(halves).checkpointed.residency,
                        one = PlannedRank(whole, 0, 0).require_plan(whole).checkpointed.residency;
  EXPECT_GT(one.host_values, 0);
  EXPECT_EQ(both.host_values, 2 * one.host_values);
  EXPECT_EQ(both.to_host_bytes, one.to_host_bytes);
}

TEST(BatchHalves, ThatCannotBeAreRefused) {
  const Words two = {"parallelism.tensor_parallel_size=2"};
  EXPECT_THROW(planned(kGpt2, kHalves), Error);  // nobody to talk to
  EXPECT_THROW(planned(kGpt2, two + kHalves + Words{"training.micro_batch_size=1"}), Error);
  EXPECT_THROW(
      planned(kGpt2, two + kHalves +
                         Words{"training.micro_batch_size=0", "training.gradient_accumulation_steps=2",
                               "training.global_batch_size=6"}),
      Error);
  EXPECT_THROW(planned(kGpt2, two + kHalves + Words{"parallelism.collective_pieces=2"}), Error);
  EXPECT_THROW(planned(kGpt2, two + kHalves +
                                  Words{"parallelism.sequence_parallel=true", "data.sequence_length=7",
                                        "parallelism.tensor_parallel_size=4", "training.micro_batch_size=2",
                                        "training.global_batch_size=2"}),
               Error);
}

}  // namespace
}  // namespace recollect::test::launch_halves_test
