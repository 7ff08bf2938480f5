// Loss scaling, on CPUs: a power of two changes no bit, an overflow costs its step and nothing else, and a
// scale that cannot help ends the run.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/optim/loss_scale.h"
#include "launch/config/read.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::loss_scale_test {
namespace {

const std::string kLossScaleYaml = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 12, n_embd: 24, n_layer: 3, n_head: 4, resid_pdrop: 0.1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 5}
optimizer: {learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0.5}
data: {format: random}
)";

using Words = std::vector<std::string>;

TEST(LossScale, HalvesOnOverflowAndDoublesAfterAWindow) {
  LossScale scale = LossScale::dynamic(8, 3);
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.value(), 8);
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.value(), 16);
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.value(), 8);
  EXPECT_TRUE(scale.update(true));  // the row begins again
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.value(), 8);
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.value(), 16);
}

TEST(LossScale, GivesUpBelowOne) {
  LossScale scale = LossScale::dynamic(2, 3);
  EXPECT_TRUE(scale.update(false));
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.update(false));
  LossScale fixed = LossScale::fixed(4);
  EXPECT_TRUE(fixed.update(true));
  EXPECT_FALSE(fixed.update(false));
}

TEST(LossScale, APowerOfTwoChangesNoBit) {
  for (const char* precision : {"training.precision=fp32", "training.precision=bf16"})
    for (const Words& layout :
         {Words{}, Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}}) {
      Words plain = layout, scaled = layout, dynamic = layout;
      plain.insert(plain.end(), {precision});
      scaled.insert(scaled.end(), {precision, "training.loss_scale=4096"});
      dynamic.insert(dynamic.end(), {precision, "training.loss_scale=0", "training.loss_scale_window=2"});
      const Trained a = train(kLossScaleYaml, plain);
      expect_same_bits(a, train(kLossScaleYaml, scaled), "loss scale 4096");
      expect_same_bits(a, train(kLossScaleYaml, dynamic), "dynamic loss scale");
    }
}

TEST(LossScale, AnOverflowCostsItsStepOnEveryRankAlike) {
  const Words layout{"parallelism.tensor_parallel_size=2", "parallelism.data_parallel_size=2",
                     "parallelism.ranks_per_process=4"};
  Words words = layout;
  // So large that fp32 gradients overflow until it has been halved a few times.
  words.insert(words.end(),
               {"training.loss_scale=0", "training.initial_loss_scale=1e41", "training.max_steps=40"});
  const Trained trained = train(kLossScaleYaml, words);
  ASSERT_EQ(trained.steps.size(), 40u);
  EXPECT_TRUE(trained.steps[0].skipped);
  EXPECT_FALSE(trained.steps[39].skipped);
  double scale = 1e41;
  int64_t updates = 0;
  for (const StepResult& step : trained.steps) {
    EXPECT_EQ(step.loss_scale, scale);
    EXPECT_TRUE(std::isfinite(step.loss));
    EXPECT_EQ(step.skipped, !std::isfinite(step.grad_norm));
    if (step.skipped) {
      EXPECT_EQ(updates, 0) << "a smaller scale overflowed after a larger one had not";
      scale /= 2;
    } else {
      ++updates;
    }
  }
  EXPECT_GT(updates, 0);
  EXPECT_LT(updates, 40);
}

TEST(LossScale, SkippedStepsLeaveWeightsAndScheduleAlone) {
  const Words first{"training.loss_scale=0", "training.initial_loss_scale=1e41", "training.max_steps=1"};
  const std::string optimizer = "learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0.5";
  std::string none = kLossScaleYaml;
  none.replace(none.find(optimizer), optimizer.size(), "learning_rate: 0");
  const Trained skipped = train(kLossScaleYaml, first), still = train(none, {"training.max_steps=1"});
  ASSERT_TRUE(skipped.steps[0].skipped);
  EXPECT_EQ(skipped.parameters, still.parameters);
}

TEST(LossScale, AFixedScaleThatOverflowsIsAnError) {
  try {
    train(kLossScaleYaml, {"training.loss_scale=1e41"});
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kNumerics);
    EXPECT_NE(std::string(error.what()).find("at loss scale 1e+41"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace recollect::test::loss_scale_test
