// Loss, every gradient and five optimizer steps against PyTorch and Transformers, from weights and batches
// that tests/golden/make_goldens.py wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "engine/io/json.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::goldens_test {
namespace {

std::string golden(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/" + name;
}

using Words = std::vector<std::string>;

struct Case {
  std::string name;
  int samples, sequence;
};

// The golden's batch, in file order, `steps` times; micro-batches of `micro` samples (0: all).
Words overrides(const Case& c, const std::string& weights, int steps = 1, int micro = 0) {
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

// The loss and the gradients of a first step are the golden's, but for the rounding of `dtype`.
void expect_golden(const Case& c, const Trained& trained, const Bounds& bounds) {
  const std::string file = golden(c.name + "/golden.safetensors");
  expect_within(read_tensors(file, "loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(read_tensors(file, "grad/"), trained.gradients, bounds.gradients);
  EXPECT_EQ(trained.predicted, trained.measured);
}

class Goldens : public testing::TestWithParam<Case> {};

TEST_P(Goldens, LossAndGradientsInDouble) {
  const Words words = overrides(GetParam(), GetParam().name);
  expect_golden(GetParam(), train(kGoldensYaml, words), rounding_bounds(kGoldensYaml, words, DType::kF64));
}

TEST_P(Goldens, LossAndGradientsInFloatOnTheCpuBackend) {
  const Words words = overrides(GetParam(), GetParam().name);
  const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF32);
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    expect_golden(GetParam(), train(kGoldensYaml, on_cpu(words, isa)), bounds);
  }
}

TEST_P(Goldens, UnequalMicroBatchesEqualOneBatch) {  // valid tokens weigh, not micro-batches
  const Case& c = GetParam();
  const Trained whole = train(kGoldensYaml, overrides(c, c.name)),
                cut = train(kGoldensYaml, overrides(c, c.name, 1, 1));
  const Bounds bounds = rounding_bounds(kGoldensYaml, overrides(c, c.name), DType::kF64);
  expect_within(whole.gradients, cut.gradients, bounds.gradients);
}

INSTANTIATE_TEST_SUITE_P(All, Goldens,
                         testing::Values(Case{"plain", 2, 12}, Case{"odd", 3, 7}, Case{"deep", 4, 10}),
                         [](const auto& info) { return info.param.name; });

// Makes every result of one op kind wrong by a hundred-thousandth, or leaves the largest number of each out.
class Mutation final : public ExecutorProbe {
 public:
  Mutation(std::string kind, bool leaves_out) : kind_(std::move(kind)), leaves_out_(leaves_out) {}
  void after_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    kinds.insert(op.def->name);
    if (op.def->name != kind_) return;
    const Tensor y = executor.tensor(op.outputs[0]);
    if (y.dtype != DType::kF64) return;
    double *const begin = y.as<double>(), *const end = begin + y.elements();
    if (leaves_out_)
      *std::max_element(begin, end, [](double a, double b) { return std::abs(a) < std::abs(b); }) = 0;
    else
      std::for_each(begin, end, [](double& x) { x *= 1.00001; });
  }
  std::set<std::string> kinds;  // of the program

 private:
  const std::string kind_;
  const bool leaves_out_;
};

// The bounds see what is no rounding: an error of a hundred-thousandth in any kind of op, and a number that is missing, are
// beyond those of fp32.
TEST(RoundingBounds, FindAnOpThatIsWrong) {
  Words words = overrides({"plain", 2, 12}, "plain");
  words.insert(words.end(), {"optimizer.name=sgd", "optimizer.learning_rate=1"});
  const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF32);
  const auto with = [&](Mutation& mutation) {
    return train(kGoldensYaml, words,
                 [&](int) { return ProgramParts{.edit_program = {}, .probe = &mutation}; });
  };
  Mutation none("", false);
  const Trained right = with(none);
  for (const std::string& kind : none.kinds)
    for (const bool leaves_out : {false, true}) {
      Mutation mutation(kind, leaves_out);
      const Trained wrong = with(mutation);
      const Tensors scalars{{"loss", losses_of(right)}, {"norm", norms_of(right)}},
          wrong_scalars{{"loss", losses_of(wrong)}, {"norm", norms_of(wrong)}},
          bounds_of_scalars{{"loss", bounds.losses}, {"norm", bounds.norms}};
      EXPECT_GT(std::max({largest_share(scalars, wrong_scalars, bounds_of_scalars),
                          largest_share(right.gradients, wrong.gradients, bounds.gradients),
                          largest_share(right.parameters, wrong.parameters, bounds.parameters)}),
                1)
          << kind << (leaves_out ? " without its largest number" : "");
    }
}

// And those of fp64 an epsilon that is wrong by a ten-thousandth.
TEST(RoundingBounds, OfDoubleFindAnEpsilonThatIsWrong) {
  const Words words = overrides({"plain", 2, 12}, "plain");
  Words wrong = words;
  wrong.push_back("model.layer_norm_epsilon=1.0001e-5");
  const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF64);
  EXPECT_GT(largest_share(train(kGoldensYaml, words).gradients, train(kGoldensYaml, wrong).gradients,
                          bounds.gradients),
            1);
}

class Optimizers : public testing::TestWithParam<std::string> {};

TEST_P(Optimizers, FiveStepsMatchTorch) {
  const Case c{"plain", 2, 12};
  nlohmann::json described;
  std::ifstream(golden("optimizers.json")) >> described;
  nlohmann::json mine;
  for (const auto& entry : described["optimizers"])
    if (entry["name"] == GetParam()) mine = entry;
  ASSERT_FALSE(mine.is_null());
  Words words = overrides(c, c.name, 5);
  words.insert(words.end(),
               {"optimizer.name=" + GetParam(), "optimizer.learning_rate=" + mine["learning_rate"].dump(),
                "optimizer.weight_decay=" + mine["weight_decay"].dump(),
                "optimizer.max_grad_norm=" + described["max_grad_norm"].dump()});
  if (!mine["eps"].is_null()) words.push_back("optimizer.epsilon=" + mine["eps"].dump());
  if (!mine["momentum"].is_null()) words.push_back("optimizer.momentum=" + mine["momentum"].dump());
  const Trained trained = train(kGoldensYaml, words);
  const std::string file = golden("plain/golden.safetensors");
  const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF64);
  const Tensors expected = read_tensors(file, GetParam() + "/step5/");
  expect_within(expected, trained.parameters, stored_as_float(bounds.parameters, expected));
  expect_within(read_tensors(file, GetParam() + "/loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(read_tensors(file, GetParam() + "/grad_norm").at(""), norms_of(trained), bounds.norms,
                "norm");
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
    Words words = overrides(c, c.name, 5);
    for (const auto& word : described.at("words")) words.push_back(word.get<std::string>());
    const Trained trained = train(kGoldensYaml, words);
    const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF64);
    SCOPED_TRACE(name);
    Tensors expected = read_tensors(golden("plain/rules.safetensors"), name + "/"), got = trained.parameters;
    // The gradient of a key's bias is nothing but rounding, which the loss does not see; these make whole steps of it.
    if (name == "lion" || name.starts_with("adafactor"))
      for (Tensors* tensors : {&expected, &got})
        std::erase_if(*tensors, [](const auto& item) { return item.first.ends_with("attn.c_attn.bias"); });
    expect_within(expected, got, stored_as_float(bounds.parameters, expected));
    expect_within(described.at("losses").get<std::vector<double>>(), losses_of(trained), bounds.losses,
                  "loss");
    expect_within(described.at("norms").get<std::vector<double>>(), norms_of(trained), bounds.norms, "norm");
  }
}

// F32, BF16 and F16 files, a missing prefix, several shards, an explicit tied head: the loss that torch has
// from exactly these weights.
class Sources : public testing::TestWithParam<std::string> {};

TEST_P(Sources, LoadToTheSameLoss) {
  const std::string folder = golden("sources/" + GetParam());
  nlohmann::json expected;
  std::ifstream(folder + "/loss.json") >> expected;
  const Words words = overrides({"odd", 3, 7}, "sources/" + GetParam());
  const Bounds bounds = rounding_bounds(kGoldensYaml, words, DType::kF64);
  expect_within({expected["loss"].get<double>()}, losses_of(train(kGoldensYaml, words)), bounds.losses,
                "loss");
}

INSTANTIATE_TEST_SUITE_P(All, Sources,
                         testing::Values("f32", "bf16", "f16", "no_prefix", "sharded", "explicit_head",
                                         "hub_gpt2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace recollect::test::goldens_test
