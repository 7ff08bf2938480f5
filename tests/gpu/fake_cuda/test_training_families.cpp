// BERT, Llama and adapters on the fake CUDA: replayed as launched, the same bits however activations are kept, on ranks with
// devices of their own too, and numbers that are near the CPU's.
#include <fmt/format.h>

#include "tests/gpu/fake_cuda/ranks.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {
namespace {

using test::expect_same_bits;
using test::Tensors;
using test::Trained;

struct Family {
  std::string name, yaml;
  Words words = {};
};

std::vector<Family> families() {
  const auto bert = [](const std::string& task, const std::string& keys, const std::string& data) {
    return "task: " + task + R"(
model: {type: bert, vocab_size: 37, hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 2,
        intermediate_size: 24, max_position_embeddings: 9, initializer_range: 0.2)" +
           keys + R"(}
device: {backend: cuda, threads: 1}
training: {micro_batch_size: 2, max_steps: 3, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {sequence_length: 7, )" +
           data + "}\n";
  };
  const std::string classifier =
      bert("sequence_classification", ", num_labels: 3", "format: jsonl, shuffle: false");
  std::string qwen3 = kTinyLlamaOnCuda;  // with norms of heads
  qwen3.replace(qwen3.find("type: llama"), 11, "type: qwen3");
  const Words adapters = {"lora.rank=2", "lora.dropout=0.1", "lora.targets=all-linear"};
  return {{"BertClassifier", classifier},
          {"MaskedBert", bert("masked_lm", "", "format: random, mask_token: 3, mask_probability: 0.4")},
          {"Llama", kTinyLlamaOnCuda},
          {"Qwen3", qwen3},
          {"BertAdapters", classifier, adapters},
          {"LlamaAdapters", kTinyLlamaOnCuda, adapters}};
}

// Sequences that are shorter than what they are padded to.
constexpr const char* kTexts = R"({"input_ids": [4, 9, 1, 30, 2, 17, 5], "labels": 2}
{"input_ids": [12, 3, 8], "labels": 0}
{"input_ids": [1, 36, 7, 7, 20], "labels": 1}
{"input_ids": [25], "labels": 2}
)";

Words words_of(const Family& family, const std::string& path, const Words& more) {
  Words words = family.words;
  if (family.yaml.find("jsonl") != std::string::npos) words.push_back("data.path=" + path);
  return with(words, more);
}

class FamilyTraining : public FakeTraining, public testing::WithParamInterface<Family> {
 protected:
  Trained train_family(const Settings& settings, const Words& words) const {
    return train_in(settings, GetParam().yaml, words_of(GetParam(), texts_, words));
  }

 private:
  const test::TemporaryFolder folder_;
  const std::string texts_ = folder_.write("texts.jsonl", kTexts);
};

const Words kSelective = {"activation_checkpointing.mode=selective",
                          "activation_checkpointing.recompute=[attention,activation,norm]",
                          "activation_checkpointing.cpu_checkpointing=true"};

// In fp32 attention is a kernel of the backend's own, and in bf16 the library's.
TEST_P(FamilyTraining, ReplaysAndModesHaveTheBitsOfLaunches) {
  const Words two = {"training.max_steps=2"}, bf16 = with(two, {"training.precision=bf16"});
  const Trained launched = train_family({}, with(two, kLaunched));
  expect_same_bits(launched, train_family({.order = RunOrder::kEarly}, two), "replayed");
  expect_replays(1 * 2);
  expect_same_bits(launched, train_family({.order = RunOrder::kLate}, with(two, kHost)), "full");
  const Trained fused = train_family({.fused_attention = true}, with(bf16, kLaunched));
  for (const Words& mode : {kHost, kSelective})
    expect_same_bits(fused,
                     train_family({.order = RunOrder::kRandom, .fused_attention = true}, with(bf16, mode)),
                     mode[0]);
}

// What softmax does not see, and what adapters begin with, have gradients of rounding alone, or none. Later losses depend on
// what adapters learn.
Tensors seen(Tensors tensors) {
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.first.ends_with("key.bias") || tensor.first.find("lora_A") != std::string::npos;
  });
  return tensors;
}

TEST_P(FamilyTraining, IsNearTheCpu) {
  const Words fp32 = {}, bf16 = {"training.precision=bf16", GetParam().yaml.find("bert") != std::string::npos
                                                                ? "model.attention_probs_dropout_prob=0"
                                                                : "model.attention_dropout=0"};
  // Of bf16 as where the library's attention is compared with the backend's own: its mask is another one.
  for (const auto& [words, loss, gradients] : {std::tuple{fp32, 1e-4, 1e-4}, std::tuple{bf16, 1e-2, 0.1}}) {
    const Trained gpu = train_family({.fused_attention = true}, words),
                  cpu = train_family({}, with(words, {"device.backend=cpu"}));
    for (std::size_t i = 0; i < gpu.steps.size(); ++i)
      EXPECT_NEAR(gpu.steps[i].loss, cpu.steps[i].loss, loss * cpu.steps[i].loss);
    EXPECT_LE(test::largest_difference(seen(cpu.gradients), seen(gpu.gradients)), gradients);
  }
}

const auto kFamilies = testing::ValuesIn(families());
std::string name_of_family(const testing::TestParamInfo<Family>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, FamilyTraining, kFamilies, name_of_family);

class FamilyRanks : public FakeRanks, public testing::WithParamInterface<Family> {};

TEST_P(FamilyRanks, ReplayInEveryModeWithTheBitsOfLaunches) {
  const test::TemporaryFolder folder;
  const std::string texts = folder.write("texts.jsonl", kTexts);
  const Words divided = {"activation_checkpointing.partition_activations=true"};
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    const auto train = [&](RunOrder order, const Words& words, bool replayed) {
      return numbers(world, GetParam().yaml,
                     words_of(GetParam(), texts,
                              with({"parallelism.tensor_parallel_size=2", "training.precision=bf16",
                                    "training.max_steps=2"},
                                   words)),
                     {.devices = 2, .order = order, .fused_attention = true}, replayed);
    };
    const std::vector<double> launched = train(RunOrder::kEarly, kLaunched, false);
    require(launched == train(RunOrder::kLate, with(kHost, divided), true), "full");
    require(launched == train(RunOrder::kRandom, with(kSelective, divided), true), "selective");
  }));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyRanks, kFamilies, name_of_family);

}  // namespace
}  // namespace recollect::fake_cuda
