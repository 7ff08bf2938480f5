// Optimizer states, gradients and parameters that data ranks divide (parallelism.zero_stage): the training is that of undivided ones
// in every layout and with every switch, and a rank holds its share of the bytes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/core/arena.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::divided_state_test {
namespace {

// Nothing is clipped: the norm alone depends on the order in which ranks sum it.
const char* const kUnclipped = "optimizer.max_grad_norm=0";

Words layout(int stage, int data, int tensor = 1, bool sequence = false) {
  return {fmt::format("parallelism.zero_stage={}", stage),
          fmt::format("parallelism.data_parallel_size={}", data),
          fmt::format("parallelism.tensor_parallel_size={}", tensor),
          fmt::format("parallelism.ranks_per_process={}", data * tensor),
          fmt::format("parallelism.sequence_parallel={}", sequence)};
}

void expect_same_training(const Trained& whole, const Trained& divided) {
  ASSERT_EQ(whole.steps.size(), divided.steps.size());
  for (std::size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_EQ(divided.steps[i].loss, whole.steps[i].loss);
    EXPECT_NEAR(divided.steps[i].grad_norm, whole.steps[i].grad_norm, 1e-6 * whole.steps[i].grad_norm);
  }
  EXPECT_EQ(whole.gradients, divided.gradients);
  EXPECT_EQ(whole.parameters, divided.parameters);
  EXPECT_EQ(divided.predicted, divided.measured);
}

const char* const kGpt = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 16, n_embd: 24, n_layer: 3, n_head: 4, resid_pdrop: 0.1,
        embd_pdrop: 0.1, attn_pdrop: 0.1, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 1, max_steps: 3, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";
const char* const kBert = R"(
task: masked_lm
model: {type: bert, vocab_size: 61, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 4,
        intermediate_size: 40, max_position_embeddings: 16, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 1, max_steps: 3, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 8, mask_token: 3, mask_probability: 0.4}
)";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 61, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 4,
        num_key_value_heads: 1, intermediate_size: 40, max_position_embeddings: 16, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 1, max_steps: 3, seed: 7}
optimizer: {name: adam, learning_rate: 1e-2}
data: {format: random, sequence_length: 8}
)";

TEST(DividedState, TrainsEveryFamilyInEveryLayout) {
  for (const char* yaml : {kGpt, kBert, kLlama})
    for (const char* precision : {"fp32", "bf16"})
      for (const auto& [data, tensor, sequence] :
           {std::tuple{2, 1, false}, {3, 1, false}, {2, 2, false}, {2, 2, true}}) {
        const Words run{kUnclipped, fmt::format("training.precision={}", precision)};
        const Trained whole = train(yaml, run + layout(0, data, tensor, sequence));
        for (const int stage : {1, 2, 3}) {
          SCOPED_TRACE(fmt::format("{} stage {} data {} tensor {}{} {}", std::string(yaml).substr(1, 20),
                                   stage, data, tensor, sequence ? " sequence" : "", precision));
          expect_same_training(whole, train(yaml, run + layout(stage, data, tensor, sequence)));
        }
      }
}

// Of several micro-batches stages 2 and 3 sum over the ranks first.
TEST(DividedState, AccumulatesMicroBatches) {
  const Words four{"training.gradient_accumulation_steps=4", kUnclipped};
  const Trained whole = train(kGpt, four + layout(0, 2));
  expect_same_training(whole, train(kGpt, four + layout(1, 2)));
  const Words exactly =
      four + Words{"training.precision=fp64", "device.backend=reference", "device.threads=0"};
  const Trained exact = train(kGpt, exactly + layout(0, 2)), apart = train(kGpt, exactly + layout(2, 2));
  ASSERT_EQ(exact.steps.size(), apart.steps.size());
  EXPECT_NEAR(apart.steps[0].grad_norm, exact.steps[0].grad_norm, 1e-12);
  EXPECT_LE(largest_difference(exact.gradients, apart.gradients), 1e-12);
  expect_same_training(apart, train(kGpt, exactly + layout(3, 2)));
  EXPECT_EQ(apart.predicted, apart.measured);
}

TEST(DividedState, ClipsByTheNormOfAll) {
  const Words exactly{"training.precision=fp64",      "device.backend=reference", "device.threads=0",
                      "optimizer.max_grad_norm=0.01", "optimizer.name=sgd",       "optimizer.momentum=0.9"};
  for (const int tensor : {1, 2}) {
    const Trained whole = train(kGpt, exactly + layout(0, 2, tensor));
    for (const int stage : {1, 2, 3}) {
      const Trained divided = train(kGpt, exactly + layout(stage, 2, tensor));
      EXPECT_NEAR(divided.steps[2].grad_norm, whole.steps[2].grad_norm, 1e-12 * whole.steps[2].grad_norm);
      EXPECT_LE(largest_difference(whole.parameters, divided.parameters), 1e-12);
    }
  }
}

TEST(DividedState, GoesWithEveryModeAndSwitch) {
  const TemporaryFolder disk;
  for (const int stage : {2, 3}) {
    const Words run =
        Words{kUnclipped, "evaluation.every_steps=2", "evaluation.batches=1"} + layout(stage, 2, 2);
    const Trained none = train(kGpt, run), whole = train(kGpt, run + layout(0, 2, 2));
    expect_same_training(whole, none);
    ASSERT_EQ(none.evaluations.size(), 2u);
    EXPECT_EQ(none.evaluations[0].loss, whole.evaluations[0].loss);
    for (const Words& words :
         {Words{ac("mode=full")}, Words{ac("mode=selective")}, Words{ac("mode=constant_memory")},
          Words{ac("mode=full"), ac("partition_activations=true"), ac("cpu_checkpointing=true")},
          Words{ac("mode=full"), ac("disk_checkpointing.path=" + disk.path()), ac("verify=true")},
          Words{"training.loss_scale=1024"}, Words{"parallelism.gradient_bucket_mb=1"}}) {
      SCOPED_TRACE(fmt::format("stage {} {}", stage, words.back()));
      expect_same_training(none, train(kGpt, run + words));
    }
  }
}

MemoryLedger predicted(const Words& words) {
  Config config =
      read_config_text("test.yaml", kGpt, words + Words{"model.n_embd=256", "model.vocab_size=64"});
  resolve_world(config, static_cast<int>(config.parallelism.ranks_per_process));
  return estimate(config).memory;
}

// All of this model's tensors divide by two and by four.
TEST(DividedState, TakesItsShareOfTheBytes) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Words run{fmt::format("training.precision={}", precision)};
    const MemoryLedger whole = predicted(run + layout(0, 2));
    const auto of = [&](Category category) {
      return whole.at_peak[static_cast<int>(Phase::kOptimizer)][static_cast<int>(category)];
    };
    const uint64_t states = of(Category::kOptimizer), gradients = of(Category::kGradient),
                   parameters = of(Category::kParameter);
    if (*precision == 'f') {
      EXPECT_EQ(states, 2 * parameters);  // two moments
    }
    for (const uint64_t data : {2u, 4u}) {
      const auto spared = [&](int stage) {
        return whole.persistent_bytes -
               predicted(run + layout(stage, static_cast<int>(data))).persistent_bytes;
      };
      const auto share = [&](uint64_t bytes) { return bytes - bytes / data; };
      EXPECT_EQ(spared(1), share(states)) << precision;
      EXPECT_EQ(spared(2), share(states) + share(gradients)) << precision;
      EXPECT_EQ(spared(3), share(states) + share(gradients) + share(parameters)) << precision;
    }
  }
}

// What is not trained is divided like what is.
TEST(DividedState, DividesWhatIsFrozenInStage3) {
  const auto held = [](const Trained& trained) {
    return trained.predicted.front()
        .at_peak[static_cast<std::size_t>(Phase::kOptimizer)][static_cast<std::size_t>(Category::kParameter)];
  };
  for (const char* precision : {"training.precision=fp32", "training.precision=bf16"}) {
    SCOPED_TRACE(precision);
    const Words all{precision, kUnclipped},
        some = all + Words{"optimizer.groups=[{match: [wte.weight, h.0.*], frozen: true}]"};
    const Trained divided = train(kGpt, some + layout(3, 2));
    expect_same_training(train(kGpt, some + layout(0, 2)), divided);
    EXPECT_EQ(held(divided), held(train(kGpt, all + layout(3, 2))));
  }
}

TEST(DividedState, IsSaidAndRefusedWhereItIsNone) {
  Config config = read_config_text("test.yaml", kGpt, layout(2, 2));
  resolve_world(config, 2);
  std::string said;
  for (const Remark& remark : estimate(config).remarks)
    if (remark.key == "zero_stage") said = remark.sentence;
  EXPECT_NE(said.find("are divided over 2 data ranks"), std::string::npos) << said;
  EXPECT_THROW(read_config_text("test.yaml", kGpt, layout(1, 1)), Error);
  EXPECT_THROW(read_config_text("test.yaml", kGpt, layout(4, 2)), Error);
  EXPECT_THROW(read_config_text("test.yaml", kGpt, layout(1, 2) + Words{"optimizer.name=muon"}), Error);
}

}  // namespace
}  // namespace recollect::test::divided_state_test
