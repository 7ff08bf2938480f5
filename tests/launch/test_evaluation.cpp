// Evaluation between steps: the right number, whatever the layout; and training that does not notice.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/modes.h"
#include "tests/launch/process.h"
#include "tests/launch/stress_probes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::evaluation_test {
namespace {

std::string golden(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/" + name;
}

// Dropout is on, so that an evaluation that does not switch it off is wrong.
const char* const kGoldenYaml = R"(
model: {type: gpt2, resid_pdrop: 0.4, embd_pdrop: 0.4, attn_pdrop: 0.4}
device: {backend: reference}
training: {precision: fp64, max_steps: 0}
evaluation: {format: jsonl, every_steps: 1}
data: {format: random}
)";

struct Golden {
  std::string name;
  int samples, sequence;
};

Words of_golden(const Golden& g, int tensor, int data, int micro_batch) {
  return {"model.pretrained=" + golden(g.name),
          "evaluation.path=" + golden(g.name + "/batch.jsonl"),
          "data.sequence_length=" + std::to_string(g.sequence),
          "training.micro_batch_size=" + std::to_string(micro_batch),
          "parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.data_parallel_size=" + std::to_string(data),
          "parallelism.ranks_per_process=" + std::to_string(tensor * data)};
}

// The set is cut into micro-batches that it does not fill, on ranks some of which see padding alone; it is
// smaller than one micro-batch; every target counts once all the same.
class GoldenEvaluation : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenEvaluation, LossIsTheForwardLossOfTransformersAtEveryLayout) {
  const Golden& g = GetParam();
  const double loss = read_tensors(golden(g.name + "/golden.safetensors"), "loss").at("").at(0);
  const Trained one = train(kGoldenYaml, of_golden(g, 1, 1, g.samples));
  for (const auto& [tensor, data, micro_batch] : {std::tuple{1, 1, g.samples},
                                                  {1, 1, 1},
                                                  {1, 1, 2},
                                                  {1, 1, g.samples + 3},
                                                  {2, 1, 2},
                                                  {1, 2, 2},
                                                  {1, 4, 1},
                                                  {2, 2, 1},
                                                  {1, 3, 5}}) {
    const Trained run = train(kGoldenYaml, of_golden(g, tensor, data, micro_batch));
    const std::string what = fmt::format("tensor {} data {} micro-batch {}", tensor, data, micro_batch);
    ASSERT_EQ(run.evaluations.size(), 1u) << what;
    EXPECT_NEAR(run.evaluations[0].loss, loss, 1e-10 * loss) << what;
    EXPECT_NEAR(run.evaluations[0].loss, one.evaluations[0].loss, 1e-13 * loss) << what;
    EXPECT_EQ(run.evaluations[0].tokens, g.samples * g.sequence) << what;
    EXPECT_EQ(run.evaluations[0].valid_targets, one.evaluations[0].valid_targets) << what;
    EXPECT_EQ(run.predicted, run.measured) << what;
  }
}

TEST_P(GoldenEvaluation, CpuKernelsAgree) {
  const Golden& g = GetParam();
  const double loss = read_tensors(golden(g.name + "/golden.safetensors"), "loss").at("").at(0);
  for (const auto& [precision, tolerance] : {std::pair{"fp32", 1e-5}, {"bf16", 1e-2}})
    for (const int tensor : {1, 2}) {
      const Trained run = train(
          kGoldenYaml, of_golden(g, tensor, 1, 2) + Words{"device.backend=cpu", "device.threads=1",
                                                          std::string("training.precision=") + precision});
      EXPECT_NEAR(run.evaluations.at(0).loss, loss, tolerance * loss) << precision << " " << tensor;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenEvaluation,
                         ::testing::Values(Golden{"plain", 2, 12}, Golden{"odd", 3, 7},
                                           Golden{"deep", 4, 10}),
                         [](const auto& info) { return info.param.name; });

// Odd sizes, dropout on.
const char* const kEvaluationYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 4, n_inner: 36,
        initializer_range: 0.2, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 4, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";

const Words kEvaluate = {"evaluation.every_steps=1", "evaluation.batches=3"};

struct EvaluationLayout {
  const char* name;
  int tensor, data;
  Words words;
};

class Unnoticed : public ::testing::TestWithParam<EvaluationLayout> {};

TEST_P(Unnoticed, TrainingIsTheSameBitsInEveryModeAndSwitch) {
  const EvaluationLayout& l = GetParam();
  const Words words = Words{"parallelism.tensor_parallel_size=" + std::to_string(l.tensor),
                            "parallelism.ranks_per_process=" + std::to_string(l.tensor * l.data)} +
                      l.words;
  const bool sequence = std::count(l.words.begin(), l.words.end(), "parallelism.sequence_parallel=true") > 0;
  const Trained without = train(kEvaluationYaml, words), with = train(kEvaluationYaml, words + kEvaluate);
  expect_same_bits(without, with, "none");
  ASSERT_EQ(with.evaluations.size(), 4u);
  EXPECT_NE(with.evaluations[0].loss, with.evaluations[3].loss);
  uint64_t seed = 0;
  for (const std::string_view mode : kModes)
    for (int switches = 0; switches < 8; ++switches) {
      const bool partition = switches & 1, host = switches & 2, pool = switches & 4;
      if (partition && (l.tensor == 1 || sequence)) continue;
      if (pool && partition != host) continue;  // test_checkpointing.cpp has these, too
      const Words checkpointed =
          words + kEvaluate + mode_words(mode) +
          Words{
              std::string("activation_checkpointing.partition_activations=") + (partition ? "true" : "false"),
              std::string("activation_checkpointing.cpu_checkpointing=") + (host ? "true" : "false"),
              std::string("activation_checkpointing.contiguous_checkpointing=") + (pool ? "false" : "true")};
      std::vector<std::unique_ptr<StressProbe>> probes;
      for (int rank = 0; rank < l.tensor * l.data; ++rank)
        probes.push_back(std::make_unique<StressProbe>(++seed));
      const Trained run = train(kEvaluationYaml, checkpointed,
                                [&](int rank) { return ProgramParts{.probe = probes[rank].get()}; });
      const std::string what = fmt::format("{} switches {}", mode, switches);
      expect_same_bits(without, run, what);
      ASSERT_EQ(run.evaluations.size(), 4u);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(run.evaluations[i].loss, with.evaluations[i].loss) << what;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Unnoticed,
    ::testing::Values(EvaluationLayout{"One", 1, 1, {}},
                      EvaluationLayout{"Accumulate4", 1, 1, {"training.gradient_accumulation_steps=4"}},
                      EvaluationLayout{"Bf16", 1, 1, {"training.precision=bf16"}},
                      EvaluationLayout{"Tensor2", 2, 1, {}},
                      EvaluationLayout{"Tensor2Bf16Accumulate4",
                                       2,
                                       1,
                                       {"training.precision=bf16", "training.gradient_accumulation_steps=4"}},
                      EvaluationLayout{"Sequence2", 2, 1, {"parallelism.sequence_parallel=true"}},
                      EvaluationLayout{"Data2", 1, 2, {}},
                      EvaluationLayout{"Tensor2Data2", 2, 2, {"training.gradient_accumulation_steps=4"}}),
    [](const auto& info) { return info.param.name; });

// A session on one rank, for what only its executor knows.
struct Alone {
  explicit Alone(const Words& words, ExecutorProbe* probe = nullptr)
      : config(read_config_text("test.yaml", kEvaluationYaml, words)), world(make_self_communicator()) {
    resolve_world(config, 1);
    session = std::make_unique<Session>(config, *world, ProgramParts{.probe = probe});
  }
  Config config;
  std::unique_ptr<Communicator> world;
  std::unique_ptr<Session> session;
};

const Words kHost = {"activation_checkpointing.mode=full", "activation_checkpointing.cpu_checkpointing=true"};

TEST(Evaluation, StoresNothingForBackward) {
  Alone alone(kHost + kEvaluate);
  alone.session->step();
  const Executor& executor = alone.session->executor();
  const Graph& graph = executor.program().graph;
  std::vector<Tensor> host, gradients;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values().size()); ++v) {
    if (graph.value(v).space == MemorySpace::kHost) host.push_back(executor.tensor(v));
    if (graph.value(v).category == Category::kGradient && graph.value(v).persistent)
      gradients.push_back(executor.tensor(v));
  }
  ASSERT_FALSE(host.empty());
  ASSERT_FALSE(gradients.empty());
  for (const auto* tensors : {&host, &gradients})
    for (const Tensor& t : *tensors) std::memset(t.data, 0xAB, t.bytes());
  alone.session->evaluate();
  for (const auto* tensors : {&host, &gradients})
    for (const Tensor& t : *tensors) {
      const auto* bytes = static_cast<const unsigned char*>(t.data);
      EXPECT_TRUE(std::all_of(bytes, bytes + t.bytes(), [](unsigned char b) { return b == 0xAB; }));
    }
}

TEST(Evaluation, ItsWaitsAreNotThoseOfTraining) {
  StressProbe late(1);
  Alone alone(kHost + kEvaluate, &late);
  alone.session->step();
  const Executor& executor = alone.session->executor();
  const double exposed = executor.waits().total_exposed();
  const std::vector<double> waits(executor.waits().by_op().begin(), executor.waits().by_op().end());
  EXPECT_GT(exposed, 0);
  for (int i = 0; i < 5; ++i) alone.session->evaluate();
  EXPECT_EQ(executor.waits().total_exposed(), exposed);
  EXPECT_EQ(waits, std::vector<double>(executor.waits().by_op().begin(), executor.waits().by_op().end()));
  alone.session->step();
  EXPECT_GT(executor.waits().total_exposed(), exposed);
}

TEST(Evaluation, AnEvaluationOnlyReservesWhatForwardNeeds) {
  const auto predicted = [](const Words& words) {
    Config config = read_config_text("test.yaml", kEvaluationYaml, words);
    resolve_planned_world(config);
    return estimate(config).memory;
  };
  const MemoryLedger training = predicted(kEvaluate),
                     evaluation = predicted(kEvaluate + Words{"training.max_steps=0"});
  EXPECT_LT(evaluation.arena_bytes(), training.arena_bytes() / 3);
  EXPECT_EQ(predicted({}), training) << "evaluation costs no memory";
  const Trained run = train(kEvaluationYaml, kEvaluate + Words{"training.max_steps=0"});
  EXPECT_EQ(run.measured, std::vector{evaluation});
  // As configured for training: what is about backward changes nothing.
  const std::string mode = "activation_checkpointing.mode=",
                    host = "activation_checkpointing.cpu_checkpointing=true",
                    budget = "activation_checkpointing.memory_budget=1GiB";
  for (const Words& settings : {Words{mode + "full", host}, Words{mode + "selective"},
                                Words{mode + "auto", budget}, Words{mode + "dtr", budget}}) {
    const Words words = kEvaluate + Words{"training.max_steps=0"} + settings;
    EXPECT_EQ(predicted(words), evaluation) << settings[0];
    EXPECT_EQ(train(kEvaluationYaml, words).measured, run.measured) << settings[0];
  }
}

TEST(Evaluation, HappensEverySoManyStepsAndAfterTheLast) {
  const auto after = [](int64_t every, int64_t steps) {
    Config config;
    config.evaluation.every_steps = every;
    config.training.max_steps = steps;
    std::vector<int64_t> due;
    for (int64_t done = 1; done <= steps; ++done)
      if (evaluation_due(config, {.step = done})) due.push_back(done);
    return due;
  };
  EXPECT_EQ(after(2, 5), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(after(2, 4), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(after(9, 4), (std::vector<int64_t>{4}));
  EXPECT_EQ(after(0, 4), (std::vector<int64_t>{}));
}

TEST(Evaluation, NonFiniteLossIsAnErrorOfNumerics) {
  Alone alone(kEvaluate);
  const Tensor weights =
      alone.session->executor().tensor(alone.session->training_program().model.parameters.front().value);
  std::fill_n(weights.as<float>(), weights.elements(), NAN);
  try {
    alone.session->evaluate();
    FAIL() << "a loss of NaN went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kNumerics);
  }
}

using nlohmann::json;

// Of the lines of metrics.jsonl, those of evaluations or those of steps.
std::vector<json> lines(const Workplace& place, bool evaluations, const std::string& output = "out") {
  std::vector<json> found;
  for (json line : place.metrics(output)) {
    EXPECT_NE(line.contains("loss"), line.contains("eval_loss"));
    if (line.contains("eval_loss") != evaluations) continue;
    for (const char* key : {"tokens_per_second", "step_seconds"}) line.erase(key);
    found.push_back(line);
  }
  return found;
}

TEST(EvaluationOutputs, ALineOfItsOwnWithAllDigits) {
  const Words words = {"training.max_steps=5", "evaluation.batches=2"};
  const Workplace place;
  const Finished finished = place.train(words + Words{"evaluation.every_steps=2"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("step 4/5  evaluation loss "), std::string::npos) << finished.out;
  const std::vector<json> found = lines(place, true);
  const Trained same = train(kTinyYaml, words + Words{"evaluation.every_steps=2"});
  ASSERT_EQ(found.size(), 3u);
  ASSERT_EQ(same.evaluations.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i]["step"], (std::vector{2, 4, 5})[i]);
    EXPECT_EQ(found[i]["eval_loss"].get<double>(), same.evaluations[i].loss);
    EXPECT_EQ(found[i]["eval_tokens"], 2 * 8);
    EXPECT_EQ(found[i]["eval_valid_targets"], 2 * 7);
    EXPECT_GT(found[i]["eval_seconds"], 0.0);
    EXPECT_EQ(found[i]["perplexity"].get<double>(), std::exp(same.evaluations[i].loss));
    EXPECT_EQ(found[i].size(), 6u);
  }
  const Workplace without;
  ASSERT_EQ(without.train({"training.max_steps=5"}).status, 0);
  EXPECT_EQ(lines(place, false), lines(without, false));
  EXPECT_EQ(lines(place, false).size(), 5u);
}

TEST(EvaluationOutputs, WhatWasSavedEvaluatesToTheSameBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Workplace place;
    const Words common = {"device.backend=cpu", "device.threads=1",
                          std::string("training.precision=") + precision, "evaluation.every_steps=3",
                          "evaluation.batches=4"};
    ASSERT_EQ(place.train(common + Words{"checkpoint.save_model=true", "training.max_steps=3"}).status, 0);
    const Finished again = place.train(  // of no step, there is no snapshot
        common +
        Words{"training.max_steps=0", "model.pretrained=out", "output_dir=again", "snapshot.every_steps=1"});
    ASSERT_EQ(again.status, 0) << again.err;
    ASSERT_EQ(lines(place, true).size(), 1u);
    ASSERT_EQ(lines(place, true, "again").size(), 1u);
    EXPECT_EQ(lines(place, true)[0]["eval_loss"], lines(place, true, "again")[0]["eval_loss"]);
    EXPECT_TRUE(lines(place, false, "again").empty());
  }
}

}  // namespace
}  // namespace recollect::test::evaluation_test
