// replan_after: a run whose device is not what its model says plans again by what it has measured, in the memory that it
// has, and trains to the same bits. Ops are made to take what one model says, with sleeps much longer than they are.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "checkpointing/device_file.h"
#include "checkpointing/op_time.h"
#include "engine/runtime/program_size.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/resident_memory.h"
#include "launch/report/rank_report.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::replan_test {
namespace {

using Words = std::vector<std::string>;

const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 24, n_positions: 16, n_embd: 32, n_layer: 2, n_head: 2, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 4, max_steps: 4, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 16}
)";

DeviceModel slow_device() {
  return {.name = "slow",
          .gemm_f32 = 1e8,
          .gemm_bf16 = 1e8,
          .gemm_f64 = 1e8,
          .attention_f32 = 1e8,
          .attention_bf16 = 1e8,
          .vector_flops = 1e9,
          .memory_bandwidth = 2e8,
          .link_bandwidth = 1e8,
          .link_latency = 1e-4,
          .to_host_bandwidth = 1e8,
          .to_device_bandwidth = 1e8,
          .launch_overhead = 3e-4};
}

// Ops take what the slow device takes: one that was late makes the next one shorter.
class Slowly : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    const Graph& graph = executor.program().graph;
    const Op& op = graph.op(id);
    std::chrono::steady_clock::time_point& due = due_[static_cast<std::size_t>(op.stream)];
    const auto now = std::chrono::steady_clock::now();
    if (now - due > std::chrono::milliseconds(20)) due = now;
    due += std::chrono::nanoseconds(static_cast<int64_t>(1e9 * op_seconds(graph, op, slow_device())));
    std::this_thread::sleep_until(due);
  }

 private:
  std::array<std::chrono::steady_clock::time_point, kStreamCount> due_;  // of the op in progress, by stream
};

struct Outcome {
  std::vector<double> losses;  // of rank 0, as is all else
  std::string adapted;
  Plan first, last;
  uint64_t reserved = 0, needed = 0;
  double predicted = 0, measured = 0;  // seconds of a step, by the report
  std::vector<LengthReport> lengths;
  bool as_predicted = true;
};

Outcome run(const Words& words, bool slowly) {
  Outcome result;
  std::mutex mutex;
  std::vector<Slowly> probes(2);  // by rank
  on_ranks(
      read_config_text("test.yaml", kGpt2, words),
      [&](const Config& config, Session& session) {
        const Plan first = session.training_program().checkpointed.plan;
        std::vector<double> losses;
        for (int64_t i = 0; i < config.training.max_steps; ++i) losses.push_back(session.step().loss);
        const RankReport report = report_of(config, session.measurements());
        const std::lock_guard lock(mutex);
        result.as_predicted = result.as_predicted && report.measured == report.predicted;
        if (session.mesh().world().rank() != 0) return;
        result.losses = losses;
        result.first = first;
        result.last = session.training_program().checkpointed.plan;
        result.reserved = session.programs().memory().arena(MemorySpace::kDevice).bytes();
        result.needed = session.executor().program().predicted().arena_bytes();
        result.predicted = report.step.predicted;
        result.measured = report.step.measured;
        result.lengths = report.lengths;
        for (const SwitchSentence& sentence : report.sentences)
          if (sentence.first == "replan_after") result.adapted = sentence.second;
        EXPECT_EQ(session.measurements().adapted, result.adapted);
      },
      [&](int rank) {
        return ProgramParts{.probe = slowly ? &probes[static_cast<std::size_t>(rank)] : nullptr};
      });
  return result;
}

// Of the device's model: products `factor` times as fast as they are.
std::string device_file(const TemporaryFolder& folder, double factor) {
  DeviceModel device = slow_device();
  device.gemm_f32 *= factor;
  return "device.model=" + folder.write("device.yaml", to_yaml(device));
}

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words with_budget(const Words& words, double part) {
  Config none = read_config_text("test.yaml", kGpt2, words);
  resolve_planned_world(none);
  Config full = none;
  full.activation_checkpointing.mode = CheckpointingMode::kFull;
  const PlannedRank rank(none, 0, 0);
  const auto most = static_cast<double>(rank.require_plan(none).program.predicted().arena_bytes()),
             least = static_cast<double>(rank.require_plan(full).program.predicted().arena_bytes());
  return plus(words,
              {ac("mode=auto"), ac(fmt::format("memory_budget={:.0f}", least + part * (most - least)))});
}

TEST(Replan, AWrongModelIsReplacedByWhatWasMeasured) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const TemporaryFolder folder;
    const Words words = {device_file(folder, 50), fmt::format("parallelism.tensor_parallel_size={}", ranks),
                         fmt::format("parallelism.ranks_per_process={}", ranks)};
    const Outcome none = run(words, false),
                  adapted = run(plus(with_budget(words, 0.6), {ac("replan_after=2")}), true);
    EXPECT_EQ(none.losses, adapted.losses);
    EXPECT_EQ(none.adapted, "");
    EXPECT_NE(adapted.first, adapted.last);
    EXPECT_LE(adapted.needed, adapted.reserved);
    EXPECT_TRUE(adapted.as_predicted);
    EXPECT_NE(adapted.adapted.find("after 2 steps predicted to take"), std::string::npos) << adapted.adapted;
    EXPECT_NE(adapted.adapted.find("values were saved and"), std::string::npos) << adapted.adapted;
    EXPECT_NEAR(adapted.predicted, adapted.measured, 0.2 * adapted.measured) << adapted.adapted;
  }
}

TEST(Replan, ARightModelLeavesThePlanAlone) {
  const TemporaryFolder folder;
  const Words words = {device_file(folder, 1)};
  const Outcome none = run(words, false),
                adapted = run(plus(with_budget(words, 0.6), {ac("replan_after=2")}), true);
  EXPECT_EQ(none.losses, adapted.losses);
  EXPECT_EQ(adapted.first, adapted.last);
  EXPECT_NE(adapted.adapted.find("the plan stays"), std::string::npos) << adapted.adapted;
}

TEST(Replan, LengthsThatComeLaterGoByWhatWasMeasured) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 48; ++i) {
    std::string ids = "1";
    for (int j = 1; j < (i / 4 % 2 ? 8 : 16); ++j) ids += fmt::format(", {}", (i + j) % 24);
    text += fmt::format("{{\"input_ids\": [{}]}}\n", ids);
  }
  // Arithmetic bounds products at both lengths, for the wrong model too: a kind has one multiple.
  const Words words = {
      device_file(folder, 8), "data.format=jsonl",    "data.path=" + folder.write("lines.jsonl", text),
      "data.shuffle=false",   "data.padding=longest", "data.pad_to_multiple_of=4",
      "training.max_steps=6"};
  const Outcome none = run(words, false),
                adapted = run(plus(with_budget(words, 0.5), {ac("replan_after=3")}), true);
  EXPECT_EQ(none.losses, adapted.losses);
  EXPECT_NE(adapted.first, adapted.last);
  EXPECT_TRUE(adapted.as_predicted);
  EXPECT_LE(adapted.needed, adapted.reserved);
  EXPECT_EQ(adapted.lengths.size(), 2u);
  for (const LengthReport& l : adapted.lengths)
    EXPECT_NEAR(l.predicted, l.measured, 0.3 * l.measured) << l.length;
}

// What is replaced is there until the run ends.
TEST(Replan, CountsTheProgramsThatItMakesAsResident) {
  const auto bytes = [](const Words& more) {
    Config config = read_config_text(
        "test.yaml", kGpt2, plus({"training.max_steps=6", ac("mode=auto"), ac("memory_budget=1GiB")}, more));
    resolve_planned_world(config);
    const PlannedTraining planned = plan_training(config, 0, 0);
    const Program& longest = planned.training.program;
    const uint64_t each = host_bytes_of(longest) + executor_host_bytes(longest);
    return std::pair(program_needs(config, longest, 3) - executor_host_bytes(longest), each);
  };
  const auto [never, program] = bytes({});
  EXPECT_EQ(never, 2 * program);
  EXPECT_EQ(bytes({ac("replan_after=1")}).first, 4 * program);  // a length, the longest again, two lengths
}

TEST(Replan, IsRefusedWhereNothingIsPlanned) {
  const auto refuse = [](const Words& words, const std::string& why) {
    expect_error(ExitCode::kConfiguration, {why}, [&] { read_config_text("test.yaml", kGpt2, words); });
  };
  refuse({ac("replan_after=2")}, "replan_after has no effect without mode auto");
  refuse({ac("replan_after=2"), ac("mode=auto"), ac("budget_policy=full"), ac("memory_budget=1GiB")},
         "replan_after has no effect: activation_checkpointing.budget_policy leaves nothing to plan");
  const Config brief =
      read_config_text("test.yaml", kGpt2, {ac("replan_after=4"), ac("mode=auto"), ac("memory_budget=1GiB")});
  EXPECT_TRUE(brief.unreached.contains("activation_checkpointing.replan_after"));
}

}  // namespace
}  // namespace recollect::test::replan_test
