// Loss, every gradient and five optimizer steps against PyTorch and Transformers, from weights and batches
// that tests/golden/make_goldens.py wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "engine/io/json.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::goldens_test {
namespace {

std::string golden(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/" + name;
}

struct Case {
  std::string name;
  int samples, sequence;
};

// The golden's batch, in file order, `steps` times; micro-batches of `micro` samples (0: all).
std::vector<std::string> overrides(const Case& c, const std::string& weights, int steps = 1, int micro = 0) {
  return {"model.pretrained=" + golden(weights),
          "model.resid_pdrop=0",
          "model.embd_pdrop=0",
          "model.attn_pdrop=0",
          "data.format=jsonl",
          "data.path=" + golden(c.name + "/batch.jsonl"),
          "data.shuffle=false",
          "data.sequence_length=" + std::to_string(c.sequence),
          "training.global_batch_size=" + std::to_string(c.samples),
          "training.micro_batch_size=" + std::to_string(micro ? micro : c.samples),
          "training.max_steps=" + std::to_string(steps)};
}

const char* const kGoldensYaml = R"(
model: {type: gpt2}
device: {backend: reference}
training: {precision: fp64}
)";

double golden_scalar(const Case& c, const std::string& key) {
  return read_tensors(golden(c.name + "/golden.safetensors"), key).at("").at(0);
}

class Goldens : public testing::TestWithParam<Case> {};

TEST_P(Goldens, LossAndGradientsInDouble) {
  const Case& c = GetParam();
  const Trained trained = train(kGoldensYaml, overrides(c, c.name));
  const double loss = golden_scalar(c, "loss");
  EXPECT_NEAR(trained.steps[0].loss, loss, 1e-10 * loss);
  EXPECT_LE(
      largest_difference(read_tensors(golden(c.name + "/golden.safetensors"), "grad/"), trained.gradients),
      1e-10);
  EXPECT_EQ(trained.predicted, trained.measured);
}

TEST_P(Goldens, LossAndGradientsInFloatOnTheCpuBackend) {
  const Case& c = GetParam();
  std::vector<std::string> words = overrides(c, c.name);
  words.insert(words.end(), {"device.backend=cpu", "device.threads=1", "training.precision=fp32"});
  const Trained trained = train(kGoldensYaml, words);
  const double loss = golden_scalar(c, "loss");
  EXPECT_NEAR(trained.steps[0].loss, loss, 1e-5 * loss);
  EXPECT_LE(
      largest_difference(read_tensors(golden(c.name + "/golden.safetensors"), "grad/"), trained.gradients),
      1e-5);
  EXPECT_EQ(trained.predicted, trained.measured);
}

TEST_P(Goldens, UnequalMicroBatchesEqualOneBatch) {  // valid tokens weigh, not micro-batches
  const Case& c = GetParam();
  const Trained whole = train(kGoldensYaml, overrides(c, c.name)),
                cut = train(kGoldensYaml, overrides(c, c.name, 1, 1));
  EXPECT_LE(largest_difference(whole.gradients, cut.gradients), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, Goldens,
                         testing::Values(Case{"plain", 2, 12}, Case{"odd", 3, 7}, Case{"deep", 4, 10}),
                         [](const auto& info) { return info.param.name; });

class Optimizers : public testing::TestWithParam<std::string> {};

TEST_P(Optimizers, FiveStepsMatchTorch) {
  const Case c{"plain", 2, 12};
  nlohmann::json described;
  std::ifstream(golden("optimizers.json")) >> described;
  nlohmann::json mine;
  for (const auto& entry : described["optimizers"])
    if (entry["name"] == GetParam()) mine = entry;
  ASSERT_FALSE(mine.is_null());
  std::vector<std::string> words = overrides(c, c.name, 5);
  words.insert(words.end(),
               {"optimizer.name=" + GetParam(), "optimizer.learning_rate=" + mine["learning_rate"].dump(),
                "optimizer.weight_decay=" + mine["weight_decay"].dump(),
                "optimizer.max_grad_norm=" + described["max_grad_norm"].dump()});
  if (!mine["eps"].is_null()) words.push_back("optimizer.epsilon=" + mine["eps"].dump());
  if (!mine["momentum"].is_null()) words.push_back("optimizer.momentum=" + mine["momentum"].dump());
  const Trained trained = train(kGoldensYaml, words);
  const std::string file = golden("plain/golden.safetensors");
  EXPECT_LE(largest_difference(read_tensors(file, GetParam() + "/step5/"), trained.parameters), 1e-6);
  const std::vector<double> losses = read_tensors(file, GetParam() + "/loss").at("");
  const std::vector<double> norms = read_tensors(file, GetParam() + "/grad_norm").at("");
  ASSERT_EQ(losses.size(), 5u);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(trained.steps[i].loss, losses[i], 1e-6 * losses[i]);
    EXPECT_NEAR(trained.steps[i].grad_norm, norms[i], 1e-6 * norms[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("adamw", "adamw_hf", "adam", "sgd"),
                         [](const auto& info) { return info.param; });

// Other rules, and settings of groups and layers (make_rule_goldens.py).
TEST(Rules, FiveStepsMatchTheirReferences) {
  const Case c{"plain", 2, 12};
  nlohmann::json cases;
  std::ifstream(golden("rules.json")) >> cases;
  ASSERT_FALSE(cases.empty());
  for (const auto& described : cases) {
    const std::string name = described.at("name").get<std::string>();
    std::vector<std::string> words = overrides(c, c.name, 5);
    for (const auto& word : described.at("words")) words.push_back(word.get<std::string>());
    const Trained trained = train(kGoldensYaml, words);
    Tensors expected = read_tensors(golden("plain/rules.safetensors"), name + "/"), got = trained.parameters;
    // The gradient of a key's bias is nothing but rounding, which the loss does not see; these make whole steps of it.
    if (name == "lion" || name.starts_with("adafactor"))
      for (Tensors* tensors : {&expected, &got})
        std::erase_if(*tensors, [](const auto& item) { return item.first.ends_with("attn.c_attn.bias"); });
    EXPECT_LE(largest_difference(expected, got), 1e-6) << name;
    const auto losses = described.at("losses").get<std::vector<double>>(),
               norms = described.at("norms").get<std::vector<double>>();
    ASSERT_EQ(losses.size(), 5u);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(trained.steps[i].loss, losses[i], 1e-6 * losses[i]) << name;
      EXPECT_NEAR(trained.steps[i].grad_norm, norms[i], 1e-6 * norms[i]) << name;
    }
  }
}

// F32, BF16 and F16 files, a missing prefix, several shards, an explicit tied head: the loss that torch has
// from exactly these weights.
class Sources : public testing::TestWithParam<std::string> {};

TEST_P(Sources, LoadToTheSameLoss) {
  const std::string folder = golden("sources/" + GetParam());
  nlohmann::json expected;
  std::ifstream(folder + "/loss.json") >> expected;
  const Trained trained = train(kGoldensYaml, overrides({"odd", 3, 7}, "sources/" + GetParam()));
  const double loss = expected["loss"].get<double>();
  EXPECT_NEAR(trained.steps[0].loss, loss, 1e-10 * loss);
}

INSTANTIATE_TEST_SUITE_P(All, Sources,
                         testing::Values("f32", "bf16", "f16", "no_prefix", "sharded", "explicit_head",
                                         "hub_gpt2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace recollect::test::goldens_test
