// Documents that share samples train as each of them alone, whatever the layout of ranks and the checkpointing.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "tests/launch/config_test_support.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::packed_training_test {
namespace {

using Words = std::vector<std::string>;

const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 41, n_positions: 24, n_embd: 20, n_layer: 4, n_head: 4, initializer_range: 0.2}
device: {threads: 1}
training: {max_steps: 2, seed: 7}
data: {format: jsonl, sequence_length: 24, shuffle: false}
)";
const char* const kBert = R"(
task: masked_lm
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 24, initializer_range: 0.2}
device: {threads: 1}
training: {max_steps: 2, seed: 7}
data: {format: jsonl, sequence_length: 24, shuffle: false}
)";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 24,
        initializer_range: 0.2}
device: {threads: 1}
training: {max_steps: 2, seed: 7}
data: {format: jsonl, sequence_length: 24, shuffle: false}
)";

// Packed within samples of 24, six samples in all, of which one has two tokens of padding.
constexpr int kLengths[] = {10, 14, 7, 17, 24, 3, 9, 12, 20, 4, 5, 11, 6};

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class PackedTraining : public testing::TestWithParam<const char*> {
 protected:
  PackedTraining() {
    std::mt19937 random(3);
    std::string text, stream;
    for (const int length : kLengths) {
      std::string ids, labels;
      for (int j = 0; j < length; ++j) {
        const auto id = static_cast<int>(random() % 41), label = static_cast<int>(random() % 82);
        ids += fmt::format("{}{}", j ? ", " : "", id);
        labels += fmt::format("{}{}", j ? ", " : "", label < 41 ? label : -100);
        stream += {static_cast<char>(id), 0};
      }
      text += fmt::format("{{\"input_ids\": [{}]{}}}\n", ids,
                          std::string(GetParam()) == kBert ? ", \"labels\": [" + labels + "]" : "");
    }
    lines_ = "data.path=" + folder_.write("lines.jsonl", text);
    stream_ = "data.path=" + folder_.write("stream.bin", stream);
  }

  Trained run(const Words& more) const { return train(GetParam(), plus({lines_}, more)); }
  Words without_dropout() const {
    const std::string yaml = GetParam();
    if (yaml == kBert) return {"model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0"};
    if (yaml == kGpt2) return {"model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"};
    return {};
  }
  Words with_dropout() const {
    return std::string(GetParam()) == kLlama ? Words{"model.attention_dropout=0.2"} : Words{};
  }

  TemporaryFolder folder_;
  std::string lines_, stream_;
};

const Words kExactly = {"training.precision=fp64", "device.backend=reference", "device.threads=0",
                        "optimizer.name=sgd"};
const Words kPacked = {"data.packing=within", "training.micro_batch_size=2", "training.global_batch_size=6"};
const Words kTwo = {"data.packing=within", "training.micro_batch_size=1", "training.global_batch_size=6",
                    "parallelism.ranks_per_process=2"};

// Softmax does not see the key's bias: its gradient is zero but for rounding.
Tensors without_key_bias(Tensors tensors) {
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.ends_with("key.bias"); });
  return tensors;
}

void expect_close(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 1e-12 * std::abs(a.steps[i].loss));
    EXPECT_NEAR(a.steps[i].grad_norm, b.steps[i].grad_norm, 1e-12 * a.steps[i].grad_norm);
    EXPECT_EQ(a.steps[i].valid_targets, b.steps[i].valid_targets);
  }
  EXPECT_LE(largest_difference(without_key_bias(a.gradients), without_key_bias(b.gradients)), 1e-12);
  EXPECT_LE(largest_difference(without_key_bias(a.parameters), without_key_bias(b.parameters)), 1e-12);
}

TEST_P(PackedTraining, IsThatOfEachDocumentAlone) {
  const Words words = plus(kExactly, without_dropout());
  const Trained alone = run(plus(words, {"training.micro_batch_size=1", "training.global_batch_size=13"})),
                packed = run(plus(words, kPacked));
  expect_close(alone, packed);
  EXPECT_EQ(packed.steps[0].tokens, 6 * 24);
  EXPECT_EQ(packed.predicted, packed.measured);
}

TEST_P(PackedTraining, HasTheDropoutOfEveryLayout) {
  const Words words = plus(kExactly, with_dropout());
  const Trained one = run(plus(words, kPacked));
  expect_close(one, run(plus(plus(words, kTwo), {"parallelism.data_parallel_size=2", "data.padding=longest",
                                                 "data.pad_to_multiple_of=1"})));
  expect_close(one, run(plus(plus(words, kTwo),
                             {"parallelism.tensor_parallel_size=2", "parallelism.sequence_parallel=true"})));
}

TEST_P(PackedTraining, HasTheBitsOfNoneInEveryMode) {
  const Words words = plus(kTwo, {"parallelism.tensor_parallel_size=2"});
  const Trained none = run(words);
  for (const std::string_view mode : kModes) {
    expect_same_bits(none, run(plus(words, mode_words(mode))), std::string(mode));
    expect_same_bits(none,
                     run(plus(plus(words, mode_words(mode)),
                              {ac("cpu_checkpointing=true"), ac("partition_activations=true")})),
                     std::string(mode) + " away");
  }
}

TEST_P(PackedTraining, AcrossIsAStreamOfTokens) {
  if (std::string(GetParam()) == kBert) return;  // a stream has no labels
  const Words words = {"training.micro_batch_size=1", "training.global_batch_size=5"};
  expect_same_bits(run(plus(words, {"data.packing=across"})),
                   train(GetParam(), plus(words, {stream_, "data.format=tokens", "data.dtype=uint16"})),
                   "across");
}

TEST_P(PackedTraining, EvaluatesTheSameDocuments) {
  const Words words =
      plus(plus(kExactly, without_dropout()),
           {"evaluation." + lines_.substr(5), "evaluation.every_steps=1", "training.max_steps=1"});
  const Trained alone = run(plus(words, {"training.micro_batch_size=1", "training.global_batch_size=13"})),
                packed = run(plus(words, kPacked));
  ASSERT_EQ(alone.evaluations.size(), 1u);
  EXPECT_NEAR(alone.evaluations[0].loss, packed.evaluations[0].loss, 1e-12 * alone.evaluations[0].loss);
  EXPECT_EQ(alone.evaluations[0].valid_targets, packed.evaluations[0].valid_targets);
}

INSTANTIATE_TEST_SUITE_P(
    Families, PackedTraining, testing::Values(kGpt2, kBert, kLlama), [](const auto& info) {
      return std::string(info.param == kGpt2 ? "gpt2" : info.param == kBert ? "bert" : "llama");
    });

TEST(PackingKey, RefusesWhatItCannotPack) {
  EXPECT_EQ(refusal("data: {format: jsonl, path: x, packing: within}\n"
                    "evaluation: {format: random, every_steps: 1, batches: 1}\n"),
            "c.yaml:2:22: evaluation.format random has no end, and cannot be packed as data.packing says");
  EXPECT_EQ(
      refusal("data: {format: text, path: x, packing: within}\n"),
      "c.yaml:1:40: data.packing within packs the lines of jsonl; the samples of data.format text are full "
      "without it");
  EXPECT_EQ(
      refusal("data: {format: jsonl, path: x, packing: within}\nmodel: {type: bert}\n"
              "task: sequence_classification\n"),
      "c.yaml:1:41: data.packing within: task sequence_classification looks at samples one by one; documents "
      "are packed for causal_lm and masked_lm");
}

}  // namespace
}  // namespace recollect::test::packed_training_test
