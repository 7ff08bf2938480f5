// Rules that look at whole matrices, over ranks that hold parts of them: Adafactor, whose states have another shape than the
// parameters, and Muon.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/resume.h"
#include "launch/train/snapshots.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::matrix_rules_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Vocabularies that are padded, and projections that are one parameter here and several in files.
const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 8, n_embd: 24, n_layer: 2, n_head: 4, initializer_range: 0.2}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 4, seed: 7}
optimizer: {name: adafactor, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 61, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 28, max_position_embeddings: 8, initializer_range: 0.2}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 4, seed: 7}
optimizer: {name: adafactor_hf, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";

// The gradient of a key's bias is nothing but rounding, of which the rules make whole steps that the loss does not see.
Tensors without_key_biases(Tensors all) {
  std::erase_if(all, [](const auto& item) { return item.first.ends_with("attn.c_attn.bias"); });
  return all;
}
double largest_difference(const Trained& a, const Trained& b) {
  return test::largest_difference(without_key_biases(a.parameters), without_key_biases(b.parameters));
}

Words layout(int tensor, int data) {
  return {fmt::format("parallelism.tensor_parallel_size={}", tensor),
          fmt::format("parallelism.data_parallel_size={}", data),
          fmt::format("parallelism.ranks_per_process={}", tensor * data)};
}

void expect_same_in_every_layout(const Words& words) {
  for (const char* const yaml : {kGpt2, kLlama}) {
    const Trained alone = train(yaml, layout(1, 1) + words);
    EXPECT_EQ(alone.predicted, alone.measured);
    for (const auto& [tensor, data] : {std::pair{2, 1}, {4, 1}, {2, 2}}) {
      const Trained several = train(yaml, layout(tensor, data) + words);
      EXPECT_LE(largest_difference(alone, several), 1e-11) << tensor << " x " << data;
      EXPECT_EQ(several.predicted, several.measured);
    }
  }
}

TEST(MatrixRules, AreTheSameInEveryLayout) {
  expect_same_in_every_layout({});
  expect_same_in_every_layout({"optimizer.name=muon"});
}

// A number for each row and each column, and one for each element of a vector.
TEST(Adafactor, HoldsAsMuchAsTheFormulaSays) {
  const Words cpu = {"device.backend=cpu", "device.threads=1", "training.precision=fp32"};
  const auto bytes = [&](const char* rule) {
    const MemoryLedger ledger =
        train(kGpt2, cpu + Words{std::string("optimizer.name=") + rule}).predicted.front();
    return static_cast<double>(ledger.at_peak[0][static_cast<std::size_t>(Category::kOptimizer)]);
  };
  const int64_t h = 24, layer = (h + 3 * h) + (h + h) + (h + 4 * h) + (4 * h + h), vectors = 13 * h;
  const int64_t of_adafactor = 61 + h + 8 + h + 2 * layer + 2 * vectors + 2 * h;
  const double slack = 64 * 2 * 28;  // arenas align what they hold, and vocabularies are padded
  EXPECT_NEAR(bytes("adafactor"), static_cast<double>(4 * of_adafactor), slack);
  const int64_t elements = 61 * h + 8 * h + 2 * (12 * h * h + vectors) + 2 * h;
  EXPECT_NEAR(bytes("adamw"), static_cast<double>(8 * elements), slack);
}

// Accumulated, clipped and in bf16 the CPU's kernels stay by the reference's.
TEST(MatrixRules, OfTheCpuAreTheReferences) {
  const Words more = {"optimizer.max_grad_norm=0.5"};
  for (const char* const yaml : {kGpt2, kLlama}) {
    const Trained reference = train(yaml, more);
    const Bounds single = rounding_bounds(yaml, more, DType::kF32),
                 half = rounding_bounds(yaml, more, DType::kBF16);
    for (const std::string& isa : isas_here()) {
      SCOPED_TRACE(isa);
      const Trained cpu = train(yaml, on_cpu(more, isa));
      expect_within(without_key_biases(reference.parameters), without_key_biases(cpu.parameters),
                    single.parameters);
      expect_same_bits(cpu, train(yaml, on_cpu(more, isa) + Words{"activation_checkpointing.mode=full"}),
                       "mode full");
      const Trained rounded = train(yaml, on_cpu(more, isa, "bf16"));
      EXPECT_EQ(rounded.predicted, rounded.measured);
      expect_within(losses_of(reference), losses_of(rounded), half.losses, "losses in bf16");
    }
  }
  const Words muon = more + Words{"optimizer.name=muon"};
  const Trained reference = train(kGpt2, muon);
  const Bounds bounds = rounding_bounds(kGpt2, muon, DType::kF32);
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    const Trained cpu = train(kGpt2, on_cpu(muon, isa));
    expect_within(without_key_biases(reference.parameters), without_key_biases(cpu.parameters),
                  bounds.parameters);
    EXPECT_EQ(cpu.predicted, cpu.measured);
  }
}

// Trains until `until`, from the newest snapshot on where there is one.
std::vector<double> losses_until(const std::string& yaml, const Words& words, int64_t until) {
  const Config config = read_config_text("test.yaml", yaml, words);
  std::vector<double> losses;
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    try {
      resolve_world(mine, world.size());
      const Session::Restore restore = [&](const TrainingState& state) {
        const Resumed resumed = resume_training(mine, state, world);
        return resumed.folder.empty() ? std::nullopt : std::optional(resumed.progress);
      };
      Session session(mine, world, {}, restore);
      Snapshots snapshots(mine, session, {});
      while (session.progress().step < until) {
        const StepResult step = session.step();
        if (world.rank() == 0) losses.push_back(step.loss);
        snapshots.after_step();
      }
      snapshots.finish();
      world.barrier();
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
  return losses;
}

TEST(Adafactor, GoesOnInAnotherLayout) {
  for (const char* const yaml : {kGpt2, kLlama}) {
    const TemporaryFolder whole, cut;
    const auto words = [](const TemporaryFolder& folder, int tensor, int data) {
      return layout(tensor, data) + Words{"snapshot.every_steps=1000", "snapshot.path=" + folder.path()};
    };
    const std::vector<double> expected = losses_until(yaml, words(whole, 1, 1), 4);
    std::vector<double> losses;
    int64_t until = 0;
    for (const auto& [tensor, data] : {std::pair{1, 1}, {4, 1}, {2, 2}, {1, 1}})
      for (const double loss : losses_until(yaml, words(cut, tensor, data), ++until)) losses.push_back(loss);
    ASSERT_EQ(losses.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(losses[i], expected[i], 1e-11 * expected[i]) << i;
  }
}

}  // namespace
}  // namespace recollect::test::matrix_rules_test
