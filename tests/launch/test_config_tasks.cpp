// Tasks in a configuration: which family has which, and which keys serve which.
#include <gtest/gtest.h>

#include "launch/program/task.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_tasks_test {
namespace {

const std::string kRandom = "data: {format: random}\n";

TEST(Tasks, TheFirstOfItsFamilyWhereNoneIsGiven) {
  EXPECT_EQ(accepted(kRandom).task, Task::kCausalLm);
  const Config bert = accepted("data: {format: random, mask_token: 103}\nmodel: {type: bert}\n");
  EXPECT_EQ(bert.task, Task::kMaskedLm);
  EXPECT_EQ(task_data(bert).fields.front().key, "input_ids");
}

TEST(Tasks, AreThoseThatTheFamilyHasAHeadFor) {
  EXPECT_EQ(
      refusal(kRandom + "task: question_answering\n"),
      "c.yaml:2:7: task question_answering: model.type gpt2 has no head for it; it has one for causal_lm");
  for (const std::string_view task :
       {"sequence_classification", "multiple_choice", "question_answering", "token_classification"})
    EXPECT_EQ(name_of(accepted(kRandom + "model: {type: bert}\ntask: " + std::string(task) + "\n").task),
              task);
}

TEST(Tasks, ARegressionIsOneNumberUnlessTheModelSaysOtherwise) {
  const std::string bert = kRandom + "task: sequence_classification\n";
  const auto settings = [&](const std::string& model) {
    return task_settings(accepted(bert + "model: {type: bert, " + model + "}\n"));
  };
  EXPECT_EQ(settings("num_labels: 1").problem, ProblemType::kRegression);
  EXPECT_EQ(settings("num_labels: 3").problem, ProblemType::kSingleLabel);
  EXPECT_EQ(settings("num_labels: 3, problem_type: multi_label_classification").problem,
            ProblemType::kMultiLabel);
  EXPECT_EQ(settings("num_labels: 3").labels, 3);
}

TEST(Tasks, KeysOfOthersHaveNoEffect) {
  const std::string bert = "model: {type: bert, num_labels: 3}\n";
  EXPECT_EQ(refusal("data: {format: random, mask_token: 3}\n" + bert),
            "c.yaml:2:33: model.num_labels has no effect with task masked_lm: the head has no labels");
  EXPECT_EQ(refusal("data: {format: random, choices: 3, mask_token: 5}\n"),
            "c.yaml:1:33: data.choices has no effect with task causal_lm: a sample is one sequence\n"
            "c.yaml:1:48: data.mask_token has no effect with task causal_lm: no token is masked");
  EXPECT_EQ(refusal(kRandom + "model: {type: bert}\n"),
            "c.yaml:1:16: data.mask_token is missing: task masked_lm masks the tokens of data.format random "
            "itself");
  EXPECT_EQ(refusal("data: {format: random, mask_token: 30522}\nmodel: {type: bert}\n"),
            "c.yaml:1:36: data.mask_token 30522 is not below model.vocab_size 30522");
  EXPECT_EQ(refusal(kRandom + "model: {type: llama, rope_scaling: {rope_type: linear}}\n"),
            "c.yaml:2:48: model.rope_scaling.rope_type linear needs model.rope_scaling.factor");
  EXPECT_EQ(refusal(kRandom + "model: {type: llama, rope_scaling: {rope_type: linear, factor: 0.5}}\n"),
            "c.yaml:2:48: model.rope_scaling.factor 0.5 is below 1");
  EXPECT_EQ(refusal(kRandom + "model: {type: llama, rope_scaling: {factor: 2}}\n"),
            "c.yaml:2:45: model.rope_scaling.factor has no effect with model.rope_scaling.rope_type default: "
            "positions are not scaled");
}

TEST(Tasks, MoreTensorRanksThanKeyHeadsAreAMultiple) {
  const std::string llama =
      kRandom +
      "model: {type: llama, hidden_size: 48, intermediate_size: 48, num_attention_heads: 12, "
      "num_key_value_heads: 2}\n";
  EXPECT_EQ(mesh_axes(accepted(llama, {"parallelism.tensor_parallel_size=2"})).size(), 2u);
  const std::vector<MeshAxis> axes = mesh_axes(accepted(llama, {"parallelism.tensor_parallel_size=6"}));
  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[2].name, kRepeatAxis);
  EXPECT_EQ(axes[2].size, 3);
  EXPECT_EQ(refusal(llama, {"parallelism.tensor_parallel_size=3"}),
            "command line: parallelism.tensor_parallel_size=3: parallelism.tensor_parallel_size 3 is neither "
            "a divisor nor a multiple of "
            "model.num_key_value_heads 2");
}

}  // namespace
}  // namespace recollect::test::config_tasks_test
