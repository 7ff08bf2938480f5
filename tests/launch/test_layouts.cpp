// One training run, cut in every way: tensor ranks, data ranks, sequence parallelism, micro-batches. Loss and
// gradients agree to rounding, with dropout on, and every layout's memory is what was predicted.
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "tests/launch/training_harness.h"

namespace recollect::test::layouts_test {
namespace {

struct Ranks {
  int tensor, data;
  bool sequence_parallel;
  int micro_batch;
};

std::vector<std::string> overrides(const Ranks& layout) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(layout.tensor),
          "parallelism.data_parallel_size=" + std::to_string(layout.data),
          "parallelism.ranks_per_process=" + std::to_string(layout.tensor * layout.data),
          std::string("parallelism.sequence_parallel=") + (layout.sequence_parallel ? "true" : "false"),
          "training.micro_batch_size=" + std::to_string(layout.micro_batch)};
}

// SGD, because Adam divides by the gradient's own size: where a gradient is zero but for rounding (the key's
// bias, which softmax cannot see), it turns that rounding into a step.
class Layouts : public testing::TestWithParam<Ranks> {};

// What adds the same to all that a softmax compares has a gradient of nothing but rounding, which no two
// layouts share.
Tensors seen(const Tensors& tensors) {
  Tensors others;
  for (const auto& [name, values] : tensors) {
    if (!name.ends_with(".key.bias")) {
      others[name] = values;
      continue;
    }
    for (const double value : values) EXPECT_LE(std::abs(value), 1e-12) << name;
  }
  return others;
}

void expect_agreement(const Trained& one, const Trained& cut) {
  ASSERT_EQ(one.steps.size(), cut.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(cut.steps[i].loss, one.steps[i].loss, 1e-12 * std::abs(one.steps[i].loss));
    EXPECT_NEAR(cut.steps[i].grad_norm, one.steps[i].grad_norm, 1e-12 * one.steps[i].grad_norm);
  }
  EXPECT_LE(largest_difference(seen(one.gradients), seen(cut.gradients)), 1e-12);
  EXPECT_LE(largest_difference(seen(one.parameters), seen(cut.parameters)), 1e-12);
  for (std::size_t rank = 0; rank < cut.predicted.size(); ++rank)
    EXPECT_EQ(cut.predicted[rank], cut.measured[rank]);
}

TEST_P(Layouts, AgreeWithOneRank) {
  static const Trained one = train(kTinyYaml, overrides({1, 1, false, 1}));
  expect_agreement(one, train(kTinyYaml, overrides(GetParam())));
}

std::string layout_name(const testing::TestParamInfo<Ranks>& info) {
  const Ranks& l = info.param;
  return "Tensor" + std::to_string(l.tensor) + "Data" + std::to_string(l.data) + "Micro" +
         std::to_string(l.micro_batch) + (l.sequence_parallel ? "Sequence" : "");
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::Values(Ranks{1, 1, false, 1}, Ranks{1, 1, false, 2}, Ranks{1, 1, false, 4},
                                         Ranks{2, 1, false, 1}, Ranks{4, 1, false, 2}, Ranks{1, 2, false, 1},
                                         Ranks{1, 2, false, 2}, Ranks{2, 2, false, 1}, Ranks{2, 1, true, 1},
                                         Ranks{4, 1, true, 2}, Ranks{2, 2, true, 2}, Ranks{1, 4, false, 1},
                                         Ranks{4, 2, true, 1}),
                         layout_name);

// The other families, in every legal layout of up to four tensor and two data ranks.
constexpr const char* kBert =
    "model: {{type: bert, vocab_size: 41, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 4, "
    "intermediate_size: 36, max_position_embeddings: 9, initializer_range: 0.2{}}}\n";
constexpr const char* kLlama =
    "model: {{type: {}, vocab_size: 41, hidden_size: 20, num_hidden_layers: 2, num_attention_heads: 8, "
    "num_key_value_heads: {}, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12, "
    "attention_dropout: 0.1, initializer_range: 0.2, pad_token_id: -1, tie_word_embeddings: {}}}\n";
constexpr const char* kNeox =
    "model: {type: gpt_neox, vocab_size: 41, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 8, "
    "intermediate_size: 28, max_position_embeddings: 12, hidden_dropout: 0.1, initializer_range: 0.2}\n";
constexpr const char* kRoberta =
    "task: sequence_classification\n"
    "model: {type: roberta, vocab_size: 41, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 4, "
    "intermediate_size: 36, max_position_embeddings: 11, initializer_range: 0.2}\n";
// Dropout at every place; a mean over tokens that ranks may divide.
constexpr const char* kModernbert =
    "task: sequence_classification\n"
    "model: {type: modernbert, vocab_size: 41, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: "
    "4, "
    "intermediate_size: 36, max_position_embeddings: 9, initializer_range: 0.2, local_attention: 4, "
    "global_attn_every_n_layers: 2, embedding_dropout: 0.1, attention_dropout: 0.1, mlp_dropout: 0.1, "
    "classifier_dropout: 0.1, classifier_pooling: mean, norm_bias: true, attention_bias: true, pad_token_id: "
    "2}\n";
constexpr const char* kFamilyRun =
    "device: {backend: reference}\n"
    "training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 2, seed: 7}\n"
    "optimizer: {name: sgd, momentum: 0.9, learning_rate: 1e-2, weight_decay: 0.1}\n"
    "data: {format: random, sequence_length: 8";

struct FamilyRun {
  std::string name, yaml;
};

std::vector<FamilyRun> family_runs() {
  const auto bert = [](const char* task, const char* keys, const char* data) {
    return FamilyRun{fmt::format("Bert_{}", task),
                     fmt::format("task: {}\n", task) + fmt::format(kBert, keys) + kFamilyRun + data + "}\n"};
  };
  const auto llama = [](const char* type, int key_heads, bool tied) {
    return FamilyRun{fmt::format("{}{}{}", type, key_heads, tied ? "Tied" : ""),
                     fmt::format(kLlama, type, key_heads, tied) + kFamilyRun + "}\n"};
  };
  return {bert("masked_lm", "", ", mask_token: 3, mask_probability: 0.4"),
          bert("sequence_classification", ", num_labels: 3", ""),
          bert("token_classification", ", num_labels: 3", ""),
          llama("llama", 8, false),
          llama("llama", 2, true),  // of four tensor ranks two hold the same key/value head each
          llama("qwen2", 1, false),
          llama("qwen3", 2, true),
          llama("phi3", 8, true),
          llama("gemma2", 2, true),
          llama("gemma3_text", 2, true),
          {"gpt_neox", kNeox + std::string(kFamilyRun) + "}\n"},
          {"roberta", kRoberta + std::string(kFamilyRun) + "}\n"},
          {"modernbert", kModernbert + std::string(kFamilyRun) + "}\n"}};
}

class FamilyLayouts : public testing::TestWithParam<FamilyRun> {};

TEST_P(FamilyLayouts, AgreeWithOneRank) {
  const std::string& yaml = GetParam().yaml;
  const Trained one = train(yaml, overrides({1, 1, false, 1}));
  for (const int tensor : {1, 2, 4})
    for (const int data : {1, 2})
      for (const bool sequence : {false, true}) {
        if ((tensor == 1 && sequence) || tensor * data == 1) continue;
        SCOPED_TRACE(fmt::format("tensor {} data {}{}", tensor, data, sequence ? " sequence" : ""));
        expect_agreement(one, train(yaml, overrides({tensor, data, sequence, 1})));
      }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyLayouts, testing::ValuesIn(family_runs()),
                         [](const auto& info) { return info.param.name; });

TEST(Layouts, DropoutMatters) {  // or the comparison above would prove less than it says
  const Trained with = train(kTinyYaml);
  const Trained without =
      train(kTinyYaml, {"model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"});
  EXPECT_GT(largest_difference(with.gradients, without.gradients), 1e-3);
}

TEST(Layouts, BucketsDoNotMatter) {
  const std::vector<std::string> two = overrides({1, 2, false, 1});
  std::vector<std::string> large = two;
  large.push_back("parallelism.gradient_bucket_mb=1000");
  EXPECT_EQ(largest_difference(train(kTinyYaml, two).parameters, train(kTinyYaml, large).parameters), 0);
}

}  // namespace
}  // namespace recollect::test::layouts_test
