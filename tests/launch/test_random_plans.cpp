// Whatever a plan saves, recomputes, divides or sends away, the bits are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "checkpointing/plan_file.h"
#include "engine/io/files.h"
#include "launch/config/read.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::random_plans_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPlans = 30;  // what a sanitizer sees of plans is the code that carries them out
#else
constexpr int kPlans = 150;
#endif

// One of each family.
struct PlannedFamily {
  const char *name, *yaml;
  int tensor;
  int plans;
};

const char* const kGpt2Plans = R"(
model: {type: gpt2, vocab_size: 23, n_positions: 5, n_embd: 12, n_layer: 4, n_head: 2, n_inner: 20,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 2, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 5}
)";

const char* const kBertPlans = R"(
task: question_answering
model: {type: bert, vocab_size: 23, hidden_size: 12, num_hidden_layers: 4, num_attention_heads: 2,
        intermediate_size: 20, max_position_embeddings: 6, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 2, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 6}
)";

const char* const kLlamaPlans = R"(
model: {type: llama, vocab_size: 23, hidden_size: 12, num_hidden_layers: 4, num_attention_heads: 2,
        num_key_value_heads: 1, head_dim: 4, intermediate_size: 20, max_position_embeddings: 6,
        attention_dropout: 0.1, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 2, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 6}
)";

std::vector<std::string> words(int tensor) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor)};
}

struct Saved {
  std::string name;
  bool replicated;
};

// The values that a plan decides about.
std::vector<Saved> saved(const char* yaml, int tensor) {
  std::vector<Saved> list;
  train(yaml, words(tensor), [&](int rank) {
    return ProgramParts{.edit_program = [&list, rank](TrainingProgram& training) {
      for (const auto& [name, decision] : training.checkpointed.plan.values) {
        const Graph& graph = training.program.graph;
        if (rank == 0)
          list.push_back({name, !graph.value(graph.find(name)).placement.is_sharded_over(kTensorAxis)});
      }
    }};
  });
  return list;
}

Plan random_plan(const std::vector<Saved>& values, int tensor, std::mt19937& random) {
  Plan plan;
  plan.replay = static_cast<Replay>(random() % 4);
  const unsigned share = random() % 5;  // from almost nothing to almost all
  for (const auto& [name, replicated] : values) {
    Decision& decision = plan.values[name];
    decision.save = random() % 5 <= share;
    decision.partition = decision.save && replicated && tensor > 1 && random() % 2;
    decision.host = decision.save && random() % 2;
    decision.disk = decision.save && random() % 3 == 0;
  }
  plan.values.at("layer0/attn/residual") = {
      .partition = tensor > 1, .host = true, .disk = random() % 2 == 0};  // something that does move
  return plan;
}

class RandomPlans : public testing::TestWithParam<PlannedFamily> {};

TEST_P(RandomPlans, GiveTheBitsOfNone) {
  const auto& [name, yaml, tensor, plans] = GetParam();
  const TemporaryFolder folder;
  const Trained none = train(yaml, words(tensor));
  const std::vector<Saved> values = saved(yaml, tensor);
  ASSERT_GT(values.size(), 40u);
  std::mt19937 random(tensor);
  int ran = 0;
  for (int i = 0; ran < plans; ++i) {
    ASSERT_LT(i, plans + 50) << "too many plans are refused";
    const Plan plan = random_plan(values, tensor, random);
    write_text_file(folder.file("plan.yaml"), to_yaml(plan));
    std::vector<std::string> list = words(tensor);
    list.push_back("activation_checkpointing.plan=" + folder.file("plan.yaml"));
    if (std::any_of(plan.values.begin(), plan.values.end(),
                    [](const auto& item) { return item.second.disk; }))
      list.push_back("activation_checkpointing.disk_checkpointing.path=" + folder.file(""));
    if (i % 2) list.push_back("activation_checkpointing.verify=true");
    try {
      expect_same_bits(none, train(yaml, list), "plan " + std::to_string(i) + "\n" + to_yaml(plan));
      ++ran;
    } catch (const Error& error) {  // what would move may all be needed by the last layer's recomputation
      EXPECT_NE(std::string(error.what()).find(" has no effect"), std::string::npos) << error.what();
    }
    if (testing::Test::HasFailure()) break;  // the first plan that fails says enough
  }
}

INSTANTIATE_TEST_SUITE_P(Tensor, RandomPlans,
                         testing::Values(PlannedFamily{"1", kGpt2Plans, 1, kPlans},
                                         PlannedFamily{"2", kGpt2Plans, 2, kPlans},
                                         PlannedFamily{"Bert2", kBertPlans, 2, kPlans / 3},
                                         PlannedFamily{"Llama1", kLlamaPlans, 1, kPlans / 3},
                                         PlannedFamily{"Llama2", kLlamaPlans, 2, kPlans / 3}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::random_plans_test
