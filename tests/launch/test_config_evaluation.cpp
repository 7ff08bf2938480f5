// The evaluation section: where its values come from, and what it cannot be.
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_evaluation_test {
namespace {

TEST(ConfigEvaluation, FormatIsThatOfDataWhereNotGiven) {
  EXPECT_EQ(accepted("data: {format: tokens, path: x}").evaluation.format, DataFormat::kTokens);
  const Config c = accepted(
      "data: {format: tokens, path: x}\n"
      "evaluation: {format: jsonl, path: [a, b], eval_interval: 10, eval_iters: 3}");
  EXPECT_EQ(c.evaluation.format, DataFormat::kJsonl);
  EXPECT_EQ(c.evaluation.path, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.evaluation.every_steps, 10);
  EXPECT_EQ(c.evaluation.batches, 3);
  EXPECT_EQ(accepted(kLeast + "evaluation: {eval_steps: 4, batches: 1}").evaluation.every_steps, 4);
}

TEST(ConfigEvaluation, RefusesWhatItCannotRead) {
  EXPECT_EQ(refusal("data: {path: x}\nevaluation: {every_steps: 1}"),
            "c.yaml: evaluation.path is missing; evaluation.format text reads files");
  EXPECT_EQ(refusal(kLeast + "evaluation: {every_steps: 1}"),
            "c.yaml:1:16: evaluation.batches 0 means the whole set, and random data has no end: say how "
            "many, or give data.samples");
  EXPECT_EQ(refusal(kLeast + "evaluation: {every_steps: 1, format: text, path: x}\nmodel: {vocab_size: 9}"),
            "c.yaml:3:21: evaluation.format text has 256 token ids, model.vocab_size 9 is less");
  EXPECT_EQ(refusal("data: {path: x, low: 9, high: 9}\n"
                    "evaluation: {every_steps: 1, batches: 1, format: random}"),
            "c.yaml:1:22: data.low 9 is not below data.high 9");
}

TEST(ConfigEvaluation, KeysWithoutEffectSayWhy) {
  EXPECT_EQ(refusal(kLeast + "evaluation: {path: x}"),
            "c.yaml:2:20: evaluation.path has no effect: evaluation.every_steps is not given; write "
            "evaluation.every_steps=100");
  EXPECT_EQ(
      refusal(kLeast + "evaluation: {format: text, batches: 2}"),
      "c.yaml:2:22: evaluation.format has no effect with evaluation.every_steps 0: nothing is evaluated\n"
      "c.yaml:2:37: evaluation.batches has no effect with evaluation.every_steps 0: nothing is evaluated");
  EXPECT_EQ(refusal(kLeast + "evaluation: {path: x, every_steps: 1, batches: 2}"),
            "c.yaml:2:20: evaluation.path has no effect with evaluation.format random: no file is read");
  // What only the evaluation looks at has an effect.
  EXPECT_EQ(refusal("data: {path: x, low: 1, high: 5}\n"
                    "evaluation: {every_steps: 1, batches: 2, format: random}"),
            "accepted");
  EXPECT_EQ(refusal("data: {format: random, dtype: uint16}\n"
                    "evaluation: {every_steps: 1, format: tokens, path: x}"),
            "accepted");
}

TEST(ConfigEvaluation, AloneItNeedsNoTrainingDataAndKnowsNoBackward) {
  const std::string only = "training: {max_steps: 0}\nevaluation: {path: x, every_steps: 1}\n";
  EXPECT_EQ(refusal(only), "accepted");
  EXPECT_EQ(accepted("training: {max_steps: 0}\nevaluation: {path: x}\n").evaluation.every_steps, 1)
      << "once";
  const Config checkpointed =
      accepted(only + "activation_checkpointing: {mode: full, cpu_checkpointing: true, verify: true}");
  for (const char* key : {"mode", "cpu_checkpointing", "verify"})
    EXPECT_EQ(checkpointed.unreached.at(std::string("activation_checkpointing.") + key),
              "no effect with training.max_steps 0: this run never goes backward");
  EXPECT_TRUE(accepted(only + "checkpoint: {save_model: true}").unreached.empty()) << "it is saved as it is";
  EXPECT_EQ(accepted(only + "checkpoint: {save_best_model: true}").unreached.at("checkpoint.save_best_model"),
            "no effect with training.max_steps 0: the model stays as it is");
  EXPECT_EQ(accepted(dump_resolved(accepted(only))).evaluation.path, std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace recollect::test::config_evaluation_test
