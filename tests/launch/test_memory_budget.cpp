// Mode auto keeps its budget, whatever the model, the ranks and the precision: predicted memory never exceeds it, more
// memory never costs time, and training gives the bits of mode none in the memory that was predicted.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::memory_budget_test {
namespace {

using Words = std::vector<std::string>;

const char* const kRun = R"(
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 8, max_steps: 2, seed: 5}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 16}
)";
const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 24, n_positions: 16, n_embd: 32, n_layer: 4, n_head: 4, initializer_range: 0.2})";
const char* const kBert = R"(
task: question_answering
model: {type: bert, vocab_size: 24, hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 64, max_position_embeddings: 16, initializer_range: 0.2})";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 24, hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 4, intermediate_size: 48, max_position_embeddings: 16, initializer_range: 0.2})";

struct Layout {
  const char *name, *model;
  int tensor;
  const char* precision;
};

std::string yaml_of(const Layout& layout) { return std::string(layout.model) + kRun; }

Words words_of(const Layout& layout) {
  return {fmt::format("parallelism.tensor_parallel_size={}", layout.tensor),
          fmt::format("parallelism.ranks_per_process={}", layout.tensor),
          fmt::format("training.precision={}", layout.precision)};
}

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words budget(uint64_t bytes) { return {ac("mode=auto"), ac(fmt::format("memory_budget={}", bytes))}; }

struct Point {
  uint64_t bytes = 0;
  double seconds = 0;
};

Point point_of(const TrainingProgram& training) {
  return {training.program.predicted().arena_bytes(),
          simulate(training.program.graph, training.program.schedule, training.device, 1).step_seconds};
}

Config planned(const std::string& yaml, const Words& words) {
  Config config = read_config_text("test.yaml", yaml, words);
  resolve_planned_world(config);
  return config;
}

void sweep(const Layout& layout, int step) {
  const Config none = planned(yaml_of(layout), words_of(layout));
  const PlannedRank rank(none, 0, 0);
  const Point all = point_of(rank.require_plan(none));
  std::vector<Variant> named = compare_variants(none);
  std::erase_if(named, [](const Variant& v) { return v.host; });  // host memory has a budget of none
  Point before{0, 1e9};
  int fitting = 0;
  for (int percent = 10; percent <= 100; percent += step) {
    SCOPED_TRACE(fmt::format("{} at {} %", layout.name, percent));
    const uint64_t bytes = all.bytes * percent / 100;
    const TrainingProgram training =
        rank.plan(planned(yaml_of(layout), plus(words_of(layout), budget(bytes))));
    if (training.checkpointed.refusal) {
      EXPECT_EQ(training.checkpointed.refusal->code(), ExitCode::kDeviceMemory);
      EXPECT_EQ(fitting, 0) << "a smaller budget was enough";
      for (const Variant& v : named) EXPECT_GT(v.estimate.memory.arena_bytes(), bytes) << v.mode;
      continue;
    }
    const Point now = point_of(training);
    ++fitting;
    EXPECT_LE(now.bytes, bytes);
    EXPECT_LE(now.seconds, before.seconds);
    EXPECT_GE(now.bytes, before.bytes);
    for (const Variant& v : named)
      if (v.estimate.memory.arena_bytes() <= bytes) {
        EXPECT_LE(now.seconds, v.estimate.simulation.step_seconds)
            << v.mode << (v.partition ? " partitioned" : "");
      }
    before = now;
  }
  EXPECT_GT(fitting, 1);
  EXPECT_EQ(before.bytes, all.bytes);
  EXPECT_EQ(before.seconds, all.seconds);
}

void train_within(const Layout& layout, const std::vector<int>& percents) {
  const std::string yaml = yaml_of(layout);
  const Trained none = train(yaml, words_of(layout));
  const uint64_t all = none.predicted.front().arena_bytes();
  int ran = 0;
  for (int percent : percents) {
    const uint64_t bytes = all * percent / 100;
    const Words words = plus(words_of(layout), budget(bytes));
    const Config config = planned(yaml, words);
    if (PlannedRank(config, 0, 0).plan(config).checkpointed.refusal) continue;
    const Trained within = train(yaml, words);
    expect_same_bits(none, within, fmt::format("{} at {} %", layout.name, percent));
    for (const MemoryLedger& memory : within.measured) EXPECT_LE(memory.arena_bytes(), bytes);
    ++ran;
  }
  EXPECT_GT(ran, 0) << layout.name;
}

class MemoryBudget : public testing::TestWithParam<Layout> {};
TEST_P(MemoryBudget, IsKept) { sweep(GetParam(), 10); }
TEST_P(MemoryBudget, GivesTheBitsOfNone) { train_within(GetParam(), {80}); }
INSTANTIATE_TEST_SUITE_P(All, MemoryBudget,
                         testing::Values(Layout{"gpt2", kGpt2, 1, "fp32"}, Layout{"bert", kBert, 2, "bf16"},
                                         Layout{"llama", kLlama, 4, "fp32"}),
                         [](const auto& info) { return info.param.name; });

std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts;
  for (const auto& [name, model] : {std::pair{"gpt2", kGpt2}, {"bert", kBert}, {"llama", kLlama}})
    for (int tensor : {1, 2, 4})
      for (const char* precision : {"fp32", "bf16"}) layouts.push_back({name, model, tensor, precision});
  return layouts;
}

class EveryMemoryBudget : public testing::TestWithParam<Layout> {};
TEST_P(EveryMemoryBudget, IsKept) { sweep(GetParam(), 2); }
TEST_P(EveryMemoryBudget, GivesTheBitsOfNone) { train_within(GetParam(), {50, 60, 70, 80, 90}); }
INSTANTIATE_TEST_SUITE_P(Long, EveryMemoryBudget, testing::ValuesIn(all_layouts()), [](const auto& info) {
  return fmt::format("{}_{}_{}", info.param.name, info.param.tensor, info.param.precision);
});

TEST(MemoryBudgets, TooSmallOnesSayWhichOneWorks) {
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  const auto refusal_of = [&](uint64_t bytes) {
    const Config config = planned(yaml_of(layout), plus(words_of(layout), budget(bytes)));
    return PlannedRank(config, 0, 0).plan(config).checkpointed.refusal;
  };
  const std::optional<Error> refusal = refusal_of(1000);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ExitCode::kDeviceMemory);
  const std::string text = refusal->what(), mark = "the smallest budget that works is ";
  ASSERT_NE(text.find(mark), std::string::npos) << text;
  const uint64_t works = std::stoull(text.substr(text.find(mark) + mark.size()));
  EXPECT_FALSE(refusal_of(works));
  EXPECT_TRUE(refusal_of(works - 1));
}

// Between what one layer input takes and what all take: some are held, by the binomial schedule, and the bits are the same.
TEST(MemoryBudgets, TooSmallForTheInputsOfAllLayersAreKept) {
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{"model.n_layer=14", "training.micro_batch_size=16"};
  const auto bytes_of = [&](const char* mode) {
    const Config config = planned(yaml, plus(words, {ac(std::string("mode=") + mode)}));
    return PlannedRank(config, 0, 0).require_plan(config).program.predicted().arena_bytes();
  };
  const uint64_t least = bytes_of("constant_memory"), full = bytes_of("full");
  ASSERT_LT(least, full);
  const Trained none = train(yaml, words);
  int binomial = 0;
  for (uint64_t quarter = 1; quarter < 4; ++quarter) {
    const Words budgeted = plus(words, budget(least + (full - least) * quarter / 4));
    const Config config = planned(yaml, budgeted);
    const TrainingProgram training = PlannedRank(config, 0, 0).require_plan(config);
    if (training.checkpointed.plan.replay != Replay::kBinomial || binomial++ > 0) continue;
    const Trained within = train(yaml, budgeted);
    expect_same_bits(none, within, "binomial");
    EXPECT_EQ(within.measured.front(), training.program.predicted());
  }
  EXPECT_GT(binomial, 0);
}

TEST(MemoryBudgets, OfTheHostAreKeptToo) {
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  const Config none = planned(yaml_of(layout), words_of(layout));
  const PlannedRank rank(none, 0, 0);
  const uint64_t all = rank.require_plan(none).program.predicted().arena_bytes();
  for (uint64_t host : {1000, 20000, 60000}) {
    const Config config = planned(yaml_of(layout), plus(plus(words_of(layout), budget(all * 8 / 10)),
                                                        {ac(fmt::format("host_memory_budget={}", host))}));
    const MemoryLedger memory = rank.require_plan(config).program.predicted();
    EXPECT_LE(memory.host_bytes, host);
    EXPECT_LE(memory.arena_bytes(), all * 8 / 10);
  }
}

TEST(MemoryBudgets, AreKeptByThePlanOfEveryLength) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    std::string ids = "1";
    for (int j = 0; j < i * 7 % 16; ++j) ids += fmt::format(", {}", (i * 5 + j * 3) % 24);
    lines += fmt::format("{{\"input_ids\": [{}]}}\n", ids);
  }
  const TemporaryFolder folder;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{"data.format=jsonl",    "data.path=" + folder.write("lines.jsonl", lines),
                    "data.padding=longest", "data.pad_to_multiple_of=4",
                    "training.max_steps=6", "training.micro_batch_size=4"};
  const Trained none = train(yaml, words);
  const uint64_t bytes = none.predicted.front().arena_bytes() * 85 / 100;
  const Words budgeted = plus(words, budget(bytes));
  const Config config = planned(yaml, budgeted),
               fixed = planned(yaml, plus(budgeted, {ac("budget_policy=static")}));
  const PlannedRank rank(config, 0, 0);
  const TrainingProgram longest = rank.require_plan(config);
  int faster = 0;
  for (const BatchShape& shape : all_batch_shapes(config)) {
    const Point own = point_of(rank.plan_shorter(config, shape, longest)),
                same = point_of(rank.plan_shorter(fixed, shape, longest));
    EXPECT_LE(own.bytes, bytes);
    EXPECT_LE(own.seconds, same.seconds) << shape.sequence_length;
    faster += own.seconds < same.seconds;
  }
  EXPECT_GT(faster, 0);
  for (const char* policy : {"dynamic", "static"}) {
    const Trained within = train(yaml, plus(budgeted, {ac(std::string("budget_policy=") + policy)}));
    expect_same_bits(none, within, policy);
    for (const MemoryLedger& memory : within.measured) EXPECT_LE(memory.arena_bytes(), bytes);
  }
}

TEST(MemoryBudgets, KeysWithoutEffectAreRefused) {
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  for (const Words& words :
       {Words{ac("mode=auto")},
        {ac("memory_budget=1MiB")},
        {ac("host_memory_budget=1MiB")},
        {ac("budget_policy=full")},
        {ac("mode=full"), ac("recompute_layers=[1]")},
        {ac("mode=auto"), ac("memory_budget=1MiB"), ac("recompute_layers=[1]")},
        {ac("mode=auto"), ac("memory_budget=1MiB"), ac("budget_policy=fixed")},
        {ac("mode=auto"), ac("memory_budget=1MiB"), ac("budget_policy=static")},
        {ac("mode=auto"), ac("memory_budget=2MiB"), "device.memory_limit=1MiB"},
        {ac("mode=auto"), ac("memory_budget=1MiB"), ac("budget_policy=fixed"), ac("recompute_layers=[4]")}})
    expect_error(ExitCode::kConfiguration, {"activation_checkpointing."}, [&] { planned(yaml, words); });
}

}  // namespace
}  // namespace recollect::test::memory_budget_test
