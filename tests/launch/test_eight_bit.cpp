// Training with optimizer states of one byte a number, and with bf16 parameters that are their own master copies: the bytes
// that they take, the same bits in every mode, division and resumed run, and what snapshots make of blocks.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/modes.h"
#include "tests/launch/snapshot_command.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::eight_bit_test {
namespace {

// All matrices but that of positions are large enough.
const char* const kGpt = R"(
model: {type: gpt2, vocab_size: 64, n_positions: 16, n_embd: 64, n_layer: 2, n_head: 4, resid_pdrop: 0.1,
        initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 1, max_steps: 3, seed: 7}
optimizer: {learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0}
data: {format: random, sequence_length: 8}
)";

const std::vector<Words>& runs() {
  static const std::vector<Words> all = {
      {"optimizer.name=adamw8bit"},
      {"optimizer.name=lion8bit", "optimizer.learning_rate=1e-3"},
      {"optimizer.name=adamw8bit", "training.precision=bf16"},
      {"optimizer.name=adamw8bit", "training.precision=bf16", "training.master_dtype=bf16"},
      {"optimizer.name=adamw", "training.precision=bf16", "training.master_dtype=bf16"},
      {"optimizer.name=sgd", "optimizer.momentum=0.9", "training.precision=bf16",
       "training.master_dtype=bf16"}};
  return all;
}

Words layout(int stage, int data, int tensor = 1) {
  return {fmt::format("parallelism.zero_stage={}", stage),
          fmt::format("parallelism.data_parallel_size={}", data),
          fmt::format("parallelism.tensor_parallel_size={}", tensor),
          fmt::format("parallelism.ranks_per_process={}", data * tensor)};
}

Config config_of(const Words& words) {
  Config config = read_config_text("test.yaml", kGpt, words);
  resolve_world(config, static_cast<int>(config.parallelism.ranks_per_process));
  return config;
}

uint64_t optimizer_bytes(const Words& words) {
  return estimate(config_of(words))
      .memory.at_peak[static_cast<int>(Phase::kOptimizer)][static_cast<int>(Category::kOptimizer)];
}

TEST(EightBit, StatesTakeTheBytesOfTheFormula) {
  // Of a layer four matrices, the table of 64 tokens, that of 16 positions, and vectors.
  const uint64_t quantised = 2 * 12 * 64 * 64 + 64 * 64, blocks = 2 * (192 + 64 + 256 + 64) + 64,
                 table = 16 * 64, vectors = 2 * (4 * 64 + 192 + 64 + 256 + 64) + 2 * 64;
  const uint64_t eight = 2 * quantised + 2 * 4 * blocks + 8 * (table + vectors);
  EXPECT_EQ(optimizer_bytes({"optimizer.name=adamw"}), 8 * (quantised + table + vectors));
  EXPECT_EQ(optimizer_bytes({"optimizer.name=adamw8bit"}), eight);
  EXPECT_EQ(optimizer_bytes({"optimizer.name=lion8bit"}), eight / 2);
  const Words bf16{"training.precision=bf16"}, own = bf16 + Words{"training.master_dtype=bf16"};
  const uint64_t masters = 4 * (quantised + table);  // vectors are f32 as they are
  EXPECT_EQ(optimizer_bytes(bf16 + Words{"optimizer.name=adamw8bit"}), eight + masters);
  EXPECT_EQ(optimizer_bytes(own + Words{"optimizer.name=adamw8bit"}), eight);
  EXPECT_EQ(optimizer_bytes(own + Words{"optimizer.name=adamw"}), 8 * (quantised + table + vectors));
}

TEST(EightBit, IsRefusedWhereNoStateHasThem) {
  const auto refusal_of = [](const Words& words) -> std::string {
    try {
      estimate(config_of(words));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      return error.what();
    }
    return "accepted";
  };
  const Words small{"model.n_embd=16", "model.n_head=2", "optimizer.name=adamw8bit"};
  EXPECT_NE(refusal_of(small).find(
                "command line: optimizer.name=adamw8bit: optimizer.name adamw8bit has no effect: states "
                "of 8 bits are those of matrices of 4096 elements and more, and no such matrix is trained"),
            std::string::npos)
      << refusal_of(small);
  EXPECT_EQ(refusal_of({"optimizer.name=adamw8bit"}), "accepted");
}

TEST(EightBit, IsSaid) {
  std::map<std::string, std::string> said;
  for (const Remark& remark : estimate(config_of(runs()[3])).remarks) said[remark.key] = remark.sentence;
  EXPECT_NE(said["optimizer.name"].find("states of 9 of 28 trained parameters have 8 bits an element"),
            std::string::npos)
      << said["optimizer.name"];
  EXPECT_NE(said["master_dtype"].find("10 of 28 trained parameters are their own master copies"),
            std::string::npos)
      << said["master_dtype"];
}

TEST(EightBit, EveryModeHasTheBitsOfNone) {
  for (const Words& run : runs()) {
    const Trained none = train(kGpt, run);
    for (const std::string_view mode : {"full", "selective"})
      expect_same_bits(none, train(kGpt, run + mode_words(mode)), fmt::format("{} {}", run[0], mode));
  }
}

TEST(EightBit, EveryStageHasTheBitsOfStage0) {
  for (const Words& run : runs())
    for (const auto& [data, tensor] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
      const Trained whole = train(kGpt, run + layout(0, data, tensor));
      for (const int stage : {1, 2, 3}) {
        SCOPED_TRACE(
            fmt::format("{} {} stage {} data {} tensor {}", run.front(), run.back(), stage, data, tensor));
        const Trained divided = train(kGpt, run + layout(stage, data, tensor));
        for (std::size_t i = 0; i < whole.steps.size(); ++i)
          EXPECT_EQ(divided.steps[i].loss, whole.steps[i].loss);
        EXPECT_EQ(whole.parameters, divided.parameters);
        EXPECT_EQ(divided.predicted, divided.measured);
      }
    }
}

double mean_of_last(const Trained& trained, std::size_t count) {
  double sum = 0;
  for (std::size_t i = trained.steps.size() - count; i < trained.steps.size(); ++i)
    sum += trained.steps[i].loss;
  return sum / static_cast<double>(count);
}

// Chances go by places in the whole parameter: tensor ranks draw what one rank draws, and train alike but for the order of sums.
TEST(EightBit, TensorRanksTrainAlike) {
  for (const Words& run : {runs()[0], runs()[4]}) {
    const Words dropless =
        run + Words{"model.resid_pdrop=0", "training.max_steps=10", "optimizer.learning_rate=1e-3"};
    const Trained one = train(kGpt, dropless), two = train(kGpt, dropless + layout(0, 1, 2));
    EXPECT_EQ(two.predicted, two.measured);
    EXPECT_NEAR(two.steps[0].loss, one.steps[0].loss, 1e-2);
    EXPECT_NEAR(mean_of_last(two, 5), mean_of_last(one, 5), 0.02 * mean_of_last(one, 5));
  }
}

const char* const kWide = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 8, n_embd: 512, n_layer: 1, n_head: 4}
device: {threads: 1}
data: {format: random, sequence_length: 8}
logging: {progress: off}
output_dir: out
overwrite: true
)";

using snapshot_command_test::ranks;
using snapshot_command_test::SnapshotCommand;
using snapshot_command_test::to_layout;

// 256 columns a rank, and more.
TEST(EightBit, WholeBlocksGoToOtherTensorRanksBitForBit) {
  const SnapshotCommand command(kWide);
  command.train(ranks(2, 1) +
                Words{"optimizer.name=adamw8bit", "training.max_steps=2", "optimizer.learning_rate=1e-3"});
  command.convert("out/snapshots", "one", to_layout(1, 1));
  command.convert("one", "back", to_layout(2, 1));
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"})
    EXPECT_TRUE(TemporaryFolder::read(command.step(2, "back") + "/" + name) ==
                TemporaryFolder::read(command.step(2) + "/" + name))
        << name;
  const std::string refused = command.convert("one", "four", to_layout(4, 1), 2);
  EXPECT_NE(
      refused.find("\"h.0.attn.c_proj.weight/exp_avg_absmax\" is of blocks of 256 columns, which 4 tensor "
                   "ranks cut elsewhere"),
      std::string::npos)
      << refused;
}

// Four ranks repeat two key/value heads: their queries are a matrix of its own, large enough, and keys are not.
TEST(EightBit, QueriesBesideRepeatedKeysGoToOneRankAndBack) {
  const SnapshotCommand command(R"(
model: {type: llama, vocab_size: 61, hidden_size: 4, intermediate_size: 8, num_hidden_layers: 1,
        num_attention_heads: 4, num_key_value_heads: 2, head_dim: 256, max_position_embeddings: 8}
device: {threads: 1}
data: {format: random, sequence_length: 8}
logging: {progress: off}
output_dir: out
overwrite: true
)");
  command.train(ranks(4, 1) + Words{"optimizer.name=adamw8bit", "training.max_steps=2"});
  command.convert("out/snapshots", "one", to_layout(1, 1));
  command.convert("one", "back", to_layout(4, 1));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = fmt::format("/rank-0000{}.safetensors", rank);
    EXPECT_TRUE(TemporaryFolder::read(command.step(2, "back") + name) ==
                TemporaryFolder::read(command.step(2) + name))
        << name;
  }
  command.train(ranks(1, 1) + Words{"optimizer.name=adamw8bit", "training.max_steps=3", "resume=one"});
}

TEST(EightBit, CutBlocksAreOfTheirTensorRanksAlone) {
  const SnapshotCommand command(snapshot_command_test::kGpt);
  const Words run{"optimizer.name=adamw8bit", "model.n_embd=64"};
  command.train(ranks(2, 1) + run + Words{"training.max_steps=2"});
  command.train(ranks(2, 1) + run + Words{"resume=out/snapshots", "output_dir=same"});
  const Finished other = command.place().train(snapshot_command_test::with_defaults(
      ranks(1, 1) + run + Words{"resume=out/snapshots", "output_dir=other"}));
  EXPECT_EQ(other.status, 3);
  EXPECT_NE(other.err.find("h.0.mlp.c_proj.weight/exp_avg_absmax_of_2_parts"), std::string::npos)
      << other.err;
  EXPECT_NE(other.err.find("at the tensor_parallel_size that wrote them alone"), std::string::npos)
      << other.err;
}

// Three hundred steps on a text that can be learnt.
class LearningCurves : public testing::TestWithParam<Words> {};

TEST_P(LearningCurves, EndWhereAdamwsEnd) {
  const TemporaryFolder folder;
  std::string tokens;
  uint32_t state = 1;
  for (int i = 0; i < 40'000; ++i) {  // each token follows of the one before it, three times in four
    const uint32_t random = (state * 1664525u + 1013904223u) >> 8;
    const auto last = static_cast<unsigned char>(tokens.empty() ? 0 : tokens[tokens.size() - 2]);
    state = state * 1664525u + 1013904223u;
    tokens += std::string{static_cast<char>(random % 4 ? (last * 5u + 3u) % 64u : random / 4 % 64u), '\0'};
  }
  const Words text{"data.format=tokens",
                   "data.dtype=uint16",
                   "data.path=" + folder.write("tokens.bin", tokens),
                   "data.sequence_length=16",
                   "training.micro_batch_size=8",
                   "training.max_steps=300",
                   "model.resid_pdrop=0",
                   "model.initializer_range=0.02",
                   "optimizer.learning_rate=3e-3",
                   "optimizer.max_grad_norm=1"};
  const double wide = mean_of_last(train(kGpt, text), 30),
               eight = mean_of_last(train(kGpt, text + GetParam()), 30);
  EXPECT_LT(wide, 3.5) << "nothing was learnt";
  EXPECT_NEAR(eight, wide, 0.01 * wide);
}

INSTANTIATE_TEST_SUITE_P(Long, LearningCurves,
                         testing::Values(Words{"optimizer.name=adamw8bit"},
                                         Words{"optimizer.name=adamw8bit", "training.precision=bf16"},
                                         Words{"training.precision=bf16", "training.master_dtype=bf16"}));

}  // namespace
}  // namespace recollect::test::eight_bit_test
