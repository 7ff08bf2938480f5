// Mode dtr trains: within its budget, to the bits of mode none, in the memory that was predicted.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/planned.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::dtr_training_test {
namespace {

const char* const kRun = R"(
model: {type: gpt2, vocab_size: 24, n_positions: 16, n_embd: 32, n_layer: 6, n_head: 4, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 8, max_steps: 2, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 16}
)";

Words with_budget(Words words, uint64_t bytes) {
  words.push_back(ac("mode=dtr"));
  words.push_back(ac(fmt::format("memory_budget={}", bytes)));
  return words;
}

std::optional<Error> refusal_of(const Words& words) {
  const Config config = planned(kRun, words);
  return PlannedRank(config, 0, 0).plan(config).checkpointed.refusal;
}

// Less memory than the inputs of all layers need is refused; with those, all trains.
void train_below(const Words& layout, const Words& switches) {
  const Trained none = train(kRun, layout), full = [&] {
    Words words = layout;
    words.push_back(ac("mode=full"));
    return train(kRun, words);
  }();
  const uint64_t most = none.predicted.front().arena_bytes(), least = full.predicted.front().arena_bytes();
  Words words = layout;
  words.insert(words.end(), switches.begin(), switches.end());
  for (uint64_t bytes : {least, (least + most) / 2}) {
    SCOPED_TRACE(bytes);
    const Trained evicted = train(kRun, with_budget(words, bytes));
    expect_same_bits(none, evicted, fmt::format("dtr in {} bytes", bytes));
    for (const MemoryLedger& memory : evicted.predicted) EXPECT_LE(memory.arena_bytes(), bytes);
    for (std::size_t rank = 0; rank < evicted.measured.size(); ++rank)
      EXPECT_EQ(evicted.measured[rank].arena_bytes(), evicted.predicted[rank].arena_bytes());
  }
}

TEST(DtrTraining, KeepsItsBudgetAndTheBitsOfNone) { train_below({}, {}); }

TEST(DtrTraining, SendsAwayWhatItSaves) {
  train_below({"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"},
              {ac("partition_activations=true"), ac("cpu_checkpointing=true")});
}

// Not what mode none takes: the budget is looked for, and little below it there is none.
TEST(DtrTraining, SaysWhichBudgetIsEnough) {
  const std::optional<Error> refusal = refusal_of(with_budget({}, 1000));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ExitCode::kDeviceMemory);
  const std::string text = refusal->what(), mark = "a budget that works is ";
  ASSERT_NE(text.find(mark), std::string::npos) << text;
  const uint64_t works = std::stoull(text.substr(text.find(mark) + mark.size()));
  EXPECT_FALSE(refusal_of(with_budget({}, works)));
  EXPECT_TRUE(refusal_of(with_budget({}, works * 95 / 100)));
}

// In which the plans that hold all layers' inputs do not fit.
TEST(DtrTraining, IsNoFasterThanAutoInASmallBudget) {
  const uint64_t bytes = bytes_of(planned(kRun)) * 52 / 100;
  const auto seconds = [&](const char* mode) {
    const Config config = planned(kRun, {ac(mode), ac(fmt::format("memory_budget={}", bytes))});
    const TrainingProgram training = PlannedRank(config, 0, 0).require_plan(config);
    return simulate(training.program.graph, training.program.schedule, training.device, 1).step_seconds;
  };
  EXPECT_LE(seconds("mode=auto"), seconds("mode=dtr"));
}

// A shorter length that would be quicker with more of it than any length has been predicted to take has the longest's
// plan.
TEST(DtrTraining, EveryLengthKeepsWithinTheHostMemoryThatIsThere) {
  const TemporaryFolder folder;
  std::string lines;
  for (int length = 3; length <= 32; ++length) {
    std::string ids = "7";
    for (int i = 1; i < length; ++i) ids += fmt::format(", {}", (length * i) % 200);
    lines += fmt::format("{{\"input_ids\": [{}]}}\n", ids);
  }
  const std::string yaml = R"(
model: {type: gpt2, vocab_size: 257, n_positions: 32, n_embd: 24, n_layer: 2, n_head: 2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 14, seed: 5}
data: {format: jsonl, padding: longest, path: )" +
                           folder.write("lines.jsonl", lines) + "}\n";
  for (const uint64_t budget : {595000, 599859, 605000, 612000}) {
    const Words switches = with_budget({ac("cpu_checkpointing=true")}, budget);
    const Trained trained = train(yaml, switches);
    EXPECT_LE(trained.measured.front().arena_bytes(), budget);
  }
}

TEST(DtrTraining, RefusesKeysWithoutEffect) {
  for (const Words& more : {Words{ac("memory_budget=0")},
                            {ac("memory_budget=1MiB"), ac("budget_policy=static")},
                            {ac("memory_budget=1MiB"), ac("host_memory_budget=1MiB")},
                            {ac("memory_budget=1MiB"), ac("recompute_layers=[1]")},
                            {ac("memory_budget=1MiB"), ac("storage_dtype=bf16")},
                            {ac("memory_budget=1MiB"), ac("number_checkpoints=2")},
                            {ac("memory_budget=2MiB"), "device.memory_limit=1MiB"}}) {
    Words words{ac("mode=dtr")};
    words.insert(words.end(), more.begin(), more.end());
    expect_error(ExitCode::kConfiguration, {"activation_checkpointing."}, [&] { refusal_of(words); });
  }
}

}  // namespace
}  // namespace recollect::test::dtr_training_test
