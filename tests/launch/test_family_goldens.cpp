// Loss, every gradient and five steps of BERT for each task, Llama, Mistral and Qwen2 against PyTorch and
// Transformers, from weights and batches that tests/golden/make_family_goldens.py wrote; and the same numbers
// from any number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/launch/training_harness.h"

namespace recollect::test::family_goldens_test {
namespace {

std::string folder_of(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/families/" + name;
}

const char* const kYaml = R"(
device: {backend: reference}
training: {precision: fp64}
data: {format: jsonl, shuffle: false}
)";

using Words = std::vector<std::string>;

Words words_of(const std::string& name, const Words& more = {}) {
  nlohmann::json described;
  std::ifstream(folder_of(name) + "/case.json") >> described;
  const std::string samples = described["samples"].dump();
  Words words{"task=" + described["task"].get<std::string>(),
              "model.pretrained=" + folder_of(name),
              "data.path=" + folder_of(name) + "/batch.jsonl",
              "data.sequence_length=" + described["sequence"].dump(),
              "training.global_batch_size=" + samples,
              "training.micro_batch_size=" + samples,
              "training.max_steps=1"};
  for (const auto& [key, value] : described["keys"].items()) words.push_back(key + "=" + value.dump());
  for (const std::string& word : more) {
    std::erase_if(words, [key = word.substr(0, word.find('='))](const std::string& w) {
      return w.starts_with(key + "=");
    });
    words.push_back(word);
  }
  return words;
}

Tensors golden(const std::string& name, const std::string& prefix) {
  return read_tensors(folder_of(name) + "/golden.safetensors", prefix);
}

// Those that the golden has. The others add the same to all that a softmax compares: their gradient is nothing
// but rounding.
Tensors gradients_of(const std::string& name, const Trained& trained, double rounding) {
  const Tensors expected = golden(name, "grad/");
  Tensors seen;
  for (const auto& [tensor, values] : trained.gradients) {
    if (expected.contains(tensor)) {
      seen[tensor] = values;
      continue;
    }
    for (const double value : values) EXPECT_LE(std::abs(value), rounding) << tensor;
  }
  return seen;
}

class FamilyGoldens : public testing::TestWithParam<std::string> {};

TEST_P(FamilyGoldens, LossAndGradientsInDouble) {
  const Trained trained = train(kYaml, words_of(GetParam()));
  const double loss = golden(GetParam(), "loss").at("").at(0);
  EXPECT_NEAR(trained.steps[0].loss, loss, 1e-10 * loss);
  EXPECT_LE(largest_difference(golden(GetParam(), "grad/"), gradients_of(GetParam(), trained, 1e-12)), 1e-10);
  EXPECT_EQ(trained.predicted, trained.measured);
}

TEST_P(FamilyGoldens, LossAndGradientsInFloatOnTheCpuBackend) {
  const Trained trained = train(
      kYaml, words_of(GetParam(), {"device.backend=cpu", "device.threads=1", "training.precision=fp32"}));
  const double loss = golden(GetParam(), "loss").at("").at(0);
  EXPECT_NEAR(trained.steps[0].loss, loss, 1e-5 * loss);
  EXPECT_LE(largest_difference(golden(GetParam(), "grad/"), gradients_of(GetParam(), trained, 1e-5)), 1e-5);
  EXPECT_EQ(trained.predicted, trained.measured);
}

// Three samples in micro-batches of two: the fourth is padding. An evaluation of question answering is the mean
// over all positions that count; the golden is the mean of two means, of two starts and of three ends.
TEST_P(FamilyGoldens, EvaluationCountsNoPadding) {
  if (GetParam() == "bert_question") GTEST_SKIP() << "its evaluation is another mean";
  const std::string file = folder_of(GetParam()) + "/batch.jsonl";
  Words words = words_of(
      GetParam(), {"training.max_steps=0", "training.micro_batch_size=2", "training.global_batch_size=2",
                   "evaluation.every_steps=1", "evaluation.path=" + file});
  std::erase_if(words, [](const std::string& word) { return word.starts_with("data.path="); });
  const Trained evaluated = train(kYaml, words);
  const double loss = golden(GetParam(), "loss").at("").at(0);
  EXPECT_NEAR(evaluated.evaluations.at(0).loss, loss, 1e-10 * loss);
}

TEST_P(FamilyGoldens, FiveStepsOfAdamW) {
  const Trained trained =
      train(kYaml, words_of(GetParam(), {"training.max_steps=5", "optimizer.name=adamw",
                                         "optimizer.learning_rate=1e-2", "optimizer.weight_decay=0.1"}));
  EXPECT_LE(largest_difference(golden(GetParam(), "adamw/step5/"), trained.parameters), 1e-6);
  const std::vector<double> losses = golden(GetParam(), "adamw/loss").at(""),
                            norms = golden(GetParam(), "adamw/grad_norm").at("");
  ASSERT_EQ(losses.size(), trained.steps.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(trained.steps[i].loss, losses[i], 1e-6 * losses[i]);
    EXPECT_NEAR(trained.steps[i].grad_norm, norms[i], 1e-6 * norms[i]);
  }
}

TEST_P(FamilyGoldens, AnyLayoutOfRanksGivesTheSameNumbers) {
  const Words steps{"training.max_steps=2", "training.micro_batch_size=1", "data.sequence_length=12",
                    "optimizer.name=sgd", "optimizer.learning_rate=1e-2"};
  const Trained alone = train(kYaml, words_of(GetParam(), steps));
  for (const Words& layout : {Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"},
                              Words{"parallelism.tensor_parallel_size=4", "parallelism.ranks_per_process=4"},
                              Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                                    "training.micro_batch_size=3", "parallelism.sequence_parallel=true"},
                              Words{"parallelism.data_parallel_size=3", "parallelism.ranks_per_process=3"}}) {
    Words words = steps;
    words.insert(words.end(), layout.begin(), layout.end());
    const Trained many = train(kYaml, words_of(GetParam(), words));
    SCOPED_TRACE(layout.back());
    for (std::size_t i = 0; i < alone.steps.size(); ++i) {
      EXPECT_NEAR(many.steps[i].loss, alone.steps[i].loss, 1e-12 * alone.steps[i].loss);
      EXPECT_NEAR(many.steps[i].grad_norm, alone.steps[i].grad_norm, 1e-12 * alone.steps[i].grad_norm);
    }
    EXPECT_LE(
        largest_difference(gradients_of(GetParam(), alone, 1e-12), gradients_of(GetParam(), many, 1e-12)),
        1e-12);
    EXPECT_LE(largest_difference(alone.parameters, many.parameters), 1e-12);
    EXPECT_EQ(many.predicted, many.measured);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGoldens,
                         testing::Values("bert_masked_lm", "bert_class", "bert_regression",
                                         "bert_multi_label", "bert_choice", "bert_question",
                                         "bert_token_class", "llama", "llama_linear", "llama_llama3",
                                         "mistral", "qwen2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace recollect::test::family_goldens_test
