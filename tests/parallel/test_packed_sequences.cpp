// A classification of sequences that share samples is that of each in a sample of its own, to rounding in double.
#include <gtest/gtest.h>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "parallel/models/families.h"
#include "tests/engine/op_harness.h"

namespace recollect::test::packed_sequences_test {
namespace {

struct Classified {
  Numbers logits;
  double loss = 0;
};

// Runs BERT's forward; `inputs` by name. Parameters follow from their names.
Classified classify(bool packed, const BatchShape& batch, const std::map<std::string, Numbers>& inputs) {
  const ModelFamily& family = model_family("bert");
  ModelValues values = family.sketch(
      family, {.vocabulary = 61, .longest = 24, .width = 16, .layers = 2, .heads = 4, .dropout = 0});
  values.set("num_labels", int64_t{3});
  family.complete(values);
  OpRegistry registry;
  register_engine_ops(registry);
  register_comm_ops(registry);
  Graph graph;
  const TaskSettings task{.task = Task::kSequenceClassification,
                          .labels = 3,
                          .problem = ProblemType::kSingleLabel,
                          .packed = packed};
  const Model model = family.build(graph, registry, values, task, batch, {}, DType::kF64);
  KernelTable kernels;
  reference::register_kernels(kernels);
  GraphRunner runner(graph, kernels, {.token_stride = 24});
  for (const auto& [name, numbers] : inputs) write(runner.tensor(model.input(name)), numbers);
  EXPECT_EQ(inputs.size(), model.inputs.size());
  write(runner.tensor(model.scale), {1});
  uint64_t seed = 0;
  for (const Parameter& p : model.parameters) {
    const Tensor tensor = runner.tensor(p.value);
    write(tensor, random_numbers({.shape = tensor.shape, .scale = 0.3}, ++seed));
  }
  runner.run();
  runner.expect_intact();
  Classified result;
  for (const Op& op : graph.ops())
    if (op.name == "final/classifier") result.logits = read(runner.tensor(op.outputs[0]));
  result.loss = read(runner.tensor(model.loss))[0];
  return result;
}

TEST(PackedSequences, AreClassifiedAsEachAlone) {
  // Two samples of 24 with two and three sequences, room for six of them.
  const std::vector<std::vector<int64_t>> lengths = {{9, 15}, {4, 1, 17}};
  std::map<std::string, Numbers> packed{
      {"ids", {}}, {"token_types", {}}, {"positions", {}}, {"first_tokens", {}}};
  packed["targets"] = {2, 0, 1, -100, 1, -100};
  Numbers logits;
  double loss = 0;
  int64_t id = 0, sequence = 0;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    for (const int64_t length : lengths[sample]) {
      std::map<std::string, Numbers> alone{{"lengths", {static_cast<double>(length)}},
                                           {"targets", {packed["targets"][sequence++]}}};
      packed["first_tokens"].push_back(static_cast<double>(packed["ids"].size()));
      for (int64_t i = 0; i < length; ++i) {
        alone["ids"].push_back(static_cast<double>(++id * 7 % 61));
        alone["token_types"].push_back(i > length / 2 ? 1 : 0);
        packed["positions"].push_back(static_cast<double>(i));
      }
      for (const char* name : {"ids", "token_types"})
        packed[name].insert(packed[name].end(), alone[name].begin(), alone[name].end());
      const Classified one = classify(false, {.samples = 1, .sequence_length = length}, alone);
      logits.insert(logits.end(), one.logits.begin(), one.logits.end());
      loss += one.loss;
    }
    for (const auto& [name, padding] : {std::pair{"ids", 0.0}, {"token_types", 0.0}, {"positions", -1.0}})
      packed[name].resize(24 * (sample + 1), padding);
  }
  packed["first_tokens"].resize(6, -1);
  Classified all = classify(true, {.samples = 2, .sequence_length = 24, .packed_sequences = 6}, packed);
  all.logits.resize(logits.size());
  expect_close(all.logits, logits, 1e-13, "logits");
  EXPECT_NEAR(all.loss, loss, 1e-12 * loss);
}

}  // namespace
}  // namespace recollect::test::packed_sequences_test
