// Mode auto keeps its budget, whatever the model, the ranks and the precision: predicted memory never exceeds it, more
// memory never costs time, and training gives the bits of mode none in the memory that was predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "checkpointing/device_file.h"
#include "engine/core/byte_count.h"
#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/planned.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::memory_budget_test {
namespace {

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

struct Point {
  uint64_t bytes = 0;
  double seconds = 0;
};

Point point_of(const TrainingProgram& training) {
  return {training.program.predicted().arena_bytes(),
          simulate(training.program.graph, training.program.schedule, training.device, 1).step_seconds};
}

const Words kOnHost{ac("cpu_checkpointing=true")};

// `elsewhere`: settings with which values may wait on the host or the disk.
void sweep(const Layout& layout, int step, const Words& elsewhere = {}) {
  const Config none = planned(yaml_of(layout), words_of(layout));
  const PlannedRank rank(none, 0, 0);
  const Point all = point_of(rank.require_plan(none));
  std::vector<Variant> named =
      compare_variants(planned(yaml_of(layout), words_of(layout) + Words{ac("mode=full")} + elsewhere));
  const bool on_host = elsewhere == kOnHost;
  std::erase_if(named,
                [&](const Variant& v) { return (v.host && !on_host) || (v.disk && elsewhere.empty()); });
  Point before{0, 1e9};
  int fitting = 0;
  for (int percent = 10; percent <= 100; percent += step) {
    SCOPED_TRACE(fmt::format("{} at {} %", layout.name, percent));
    const uint64_t bytes = all.bytes * percent / 100;
    const TrainingProgram training =
        rank.plan(planned(yaml_of(layout), words_of(layout) + budget(bytes) + elsewhere));
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
            << v.mode << (v.partition ? " partitioned" : "") << (v.host ? " host" : "")
            << (v.disk ? " disk" : "");
      }
    before = now;
  }
  EXPECT_GT(fitting, 1);
  EXPECT_EQ(before.bytes, all.bytes);
  EXPECT_EQ(before.seconds, all.seconds);
}

void train_within(const Layout& layout, const std::vector<int>& percents, Words more = {}) {
  const TemporaryFolder folder;
  const std::string yaml = yaml_of(layout);
  more.push_back("debug.dump_gradients=" +
                 folder.file("gradients.safetensors"));  // what they take is planned
  const Trained none = train(yaml, words_of(layout) + more);
  const uint64_t all = none.predicted.front().arena_bytes();
  int ran = 0;
  for (int percent : percents) {
    const uint64_t bytes = all * percent / 100;
    const Words words = words_of(layout) + more + budget(bytes);
    Config config = planned(yaml, words);
    config.device.spare_cores = true;  // as train() takes them to be, whatever the machine
    if (PlannedRank(config, 0, 0).plan(config).checkpointed.refusal) continue;
    const Trained within = train(yaml, words);
    expect_same_bits(none, within, fmt::format("{} at {} %", layout.name, percent));
    for (const MemoryLedger& memory : within.measured) EXPECT_LE(memory.arena_bytes(), bytes);
    ++ran;
  }
  EXPECT_GT(ran, 0) << layout.name;
}

// Of 1 to 16 ids.
std::string lines_of_all_lengths() {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    std::string ids = "1";
    for (int j = 0; j < i * 7 % 16; ++j) ids += fmt::format(", {}", (i * 5 + j * 3) % 24);
    lines += fmt::format("{{\"input_ids\": [{}]}}\n", ids);
  }
  return lines;
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
TEST_P(EveryMemoryBudget, GivesTheBitsOfNone) {
  std::vector<int> percents;
  for (int percent = 10; percent <= 100; percent += 2) percents.push_back(percent);
  train_within(GetParam(), percents);
}
TEST_P(EveryMemoryBudget, GivesTheBitsOfNoneAtRandomLengths) {
  if (std::string(GetParam().name) == "bert") GTEST_SKIP() << "its task reads files of another form";
  const TemporaryFolder folder;
  train_within(GetParam(), {40, 60, 80},
               {"data.format=jsonl", "data.path=" + folder.write("lines.jsonl", lines_of_all_lengths()),
                "data.padding=longest", "data.pad_to_multiple_of=4", "training.max_steps=6"});
}
INSTANTIATE_TEST_SUITE_P(Long, EveryMemoryBudget, testing::ValuesIn(all_layouts()), [](const auto& info) {
  return fmt::format("{}_{}_{}", info.param.name, info.param.tensor, info.param.precision);
});

TEST(MemoryBudgets, KeepHostAndDiskWithinTheirs) {
  const TemporaryFolder folder;
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  sweep(layout, 30, kOnHost);
  sweep(layout, 30, {ac("disk_checkpointing.path=") + folder.path()});
}

// The one that works, by what its program takes most of; within a host budget too.
TEST(MemoryBudgets, TooSmallOnesSayWhichOneWorks) {
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  for (const Words& host : {Words{}, Words{ac("host_memory_budget=20000")}}) {
    const auto plan = [&](uint64_t bytes) {
      const Config config = planned(yaml_of(layout), words_of(layout) + budget(bytes) + host);
      const PlannedRank rank(config, 0, 0);
      const TrainingProgram training = rank.plan(config);
      return std::pair(training.checkpointed.refusal, training.program.layout.ledger);
    };
    const std::optional<Error> refusal = plan(1000).first;
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ExitCode::kDeviceMemory);
    const std::string text = refusal->what(), mark = "the smallest budget that works is ";
    ASSERT_NE(text.find(mark), std::string::npos) << text;
    const uint64_t works = std::stoull(text.substr(text.find(mark) + mark.size()));
    const auto [none, memory] = plan(works);
    EXPECT_FALSE(none);
    EXPECT_TRUE(plan(works - 1).first);
    MemoryLedger::Row most{};
    for (const MemoryLedger::Row& row : memory.at_peak)
      if (MemoryLedger::sum(row) > MemoryLedger::sum(most)) most = row;
    const auto largest = std::max_element(most.begin(), most.end());
    EXPECT_NE(
        text.find(fmt::format("most of it is {}, {}", name_of(static_cast<Category>(largest - most.begin())),
                              byte_count(*largest))),
        std::string::npos)
        << text;
  }
}

TEST(MemoryBudgets, AmpleOnesHaveOnePlanAndOneProgram) {
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  const Config config = planned(yaml_of(layout), words_of(layout) + budget(1 << 30));
  const TrainingProgram training = PlannedRank(config, 0, 0).require_plan(config);
  std::string said;
  for (const auto& [key, text] : training.remarks)
    if (key == "mode auto") said = text;
  EXPECT_TRUE(said.starts_with("saves all ")) << said;
  EXPECT_NE(said.find(" activations; the fastest that fits of 1 candidate plan (1 compiled); "),
            std::string::npos)
      << said;
  EXPECT_NE(said.find(byte_count((1 << 30) - training.program.predicted().arena_bytes()) +
                      " of the memory budget stay free"),
            std::string::npos)
      << said;
}

TEST(MemoryBudgets, AmpleOnesLeaveADiskThatIsAllowedEmpty) {
  const TemporaryFolder folder;
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  const Words words = words_of(layout) + budget(1 << 30);
  const std::string yaml = yaml_of(layout);
  const Trained allowed = train(yaml, words + Words{ac("disk_checkpointing.path=") + folder.path()});
  expect_same_bits(train(yaml, words_of(layout)), allowed, "an allowed disk");
  EXPECT_EQ(allowed.measured.front().disk_bytes, 0);
}

// every_k of each k, selective of each group: with more layers than other sweeps have.
TEST(MemoryBudgets, AreKeptNoSlowerThanByAnySegmentsAndGroups) {
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  const Words deep = words_of(layout) + Words{"model.n_layer=12"};
  const Config none = planned(yaml_of(layout), deep);
  const PlannedRank rank(none, 0, 0);
  std::vector<Words> modes;
  for (int k = 1; k < 12; ++k) modes.push_back({ac("mode=every_k"), ac(fmt::format("k={}", k))});
  for (const char* group : {"attention", "mlp", "norm", "activation"})
    modes.push_back({ac("mode=selective"), ac(fmt::format("recompute=[{}]", group))});
  for (const Words& mode : modes) {
    SCOPED_TRACE(mode.back());
    const Point named = point_of(rank.require_plan(planned(yaml_of(layout), deep + mode))),
                within = point_of(rank.require_plan(planned(yaml_of(layout), deep + budget(named.bytes))));
    EXPECT_LE(within.bytes, named.bytes);
    EXPECT_LE(within.seconds, named.seconds);
  }
}

TEST(MemoryBudgets, OfPoliciesAndReplicasGiveTheBitsOfNone) {
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const auto within = [&](const Words& layout, const Words& policy) {
    const Trained none = train(yaml, layout);
    const uint64_t all = none.predicted.front().arena_bytes();
    expect_same_bits(none, train(yaml, layout + budget(all) + policy),
                     policy.empty() ? "replicas" : policy.back());
  };
  within({}, {ac("budget_policy=fixed"), ac("recompute_layers=[0, 2]")});
  within({}, {ac("budget_policy=full")});
  within({}, {ac("budget_policy=none")});
  const Words replicas{"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2"};
  const Trained none = train(yaml, replicas);
  const uint64_t bytes = none.predicted.front().arena_bytes() * 85 / 100;
  const Trained planned = train(yaml, replicas + budget(bytes));
  expect_same_bits(none, planned, "two data ranks");
  for (const MemoryLedger& memory : planned.measured) EXPECT_LE(memory.arena_bytes(), bytes);
}

// Between what one layer input takes and what all take: a plan is found, within the budget, with the same bits, and no slower
// than a binomial schedule of what even layers hold.
TEST(MemoryBudgets, TooSmallForTheInputsOfAllLayersAreKept) {
  constexpr int kLayers = 14;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{fmt::format("model.n_layer={}", kLayers), "training.micro_batch_size=16"};
  const TemporaryFolder folder;
  std::vector<Point> binomial;
  for (int held = 1; held < kLayers; ++held) {
    std::string text = "replay: binomial\nvalues:\n  layer*: recompute\n";
    for (int i = 0; i < held; ++i)
      text += fmt::format("  layer{}/mlp/residual: device\n", i * (kLayers - 1) / held);
    const Config config = planned(yaml, words + Words{ac("plan=" + folder.write("plan.yaml", text))});
    binomial.push_back(point_of(PlannedRank(config, 0, 0).require_plan(config)));
  }
  const auto bytes_of = [&](const char* mode) {
    const Config config = planned(yaml, words + Words{ac(std::string("mode=") + mode)});
    return PlannedRank(config, 0, 0).require_plan(config).program.predicted().arena_bytes();
  };
  const uint64_t least = bytes_of("constant_memory"), full = bytes_of("full");
  ASSERT_LT(least, full);
  for (uint64_t quarter = 1; quarter < 4; ++quarter) {
    const uint64_t bytes = least + (full - least) * quarter / 4;
    const Words budgeted = words + budget(bytes);
    const Config config = planned(yaml, budgeted);
    const TrainingProgram training = PlannedRank(config, 0, 0).require_plan(config);
    const Point found = point_of(training);
    EXPECT_LE(found.bytes, bytes) << quarter;
    EXPECT_TRUE(
        std::any_of(binomial.begin(), binomial.end(), [&](const Point& p) { return p.bytes <= bytes; }));
    for (const Point& p : binomial)
      if (p.bytes <= bytes) {
        EXPECT_LE(found.seconds, p.seconds) << quarter;
      }
    if (quarter > 1) continue;
    const Trained within = train(yaml, budgeted);
    expect_same_bits(train(yaml, words), within, "a quarter of the way");
    EXPECT_EQ(within.measured.front(), training.program.predicted());
  }
}

// Where copies cost nothing beside arithmetic, values do wait elsewhere.
std::string slow_device(const TemporaryFolder& folder) {
  DeviceModel device = device_preset("cpu");
  for (double* rate : {&device.gemm_f32, &device.attention_f32, &device.vector_flops}) *rate = 1e7;
  device.disk_write_bandwidth = device.disk_read_bandwidth = 1e12;
  return "device.model=" + folder.write("device.yaml", to_yaml(device));
}

// Optimizer states that wait elsewhere, and the disk's buffer, are not what the host's budget is for.
TEST(MemoryBudgets, OfTheHostAreKeptToo) {
  const TemporaryFolder folder;
  const Layout layout{"gpt2", kGpt2, 1, "fp32"};
  for (const Words& states :
       {Words{}, Words{"optimizer.offload=disk", "optimizer.offload_path=" + folder.path()}}) {
    const Words words = words_of(layout) + Words{slow_device(folder), "model.n_layer=12"} + states;
    const Config none = planned(yaml_of(layout), words);
    const PlannedRank rank(none, 0, 0);
    const MemoryLedger all = rank.require_plan(none).program.predicted();
    EXPECT_EQ(all.host_bytes > 0, !states.empty());
    const uint64_t device = all.arena_bytes() * 7 / 10;
    uint64_t most = 0;
    for (uint64_t host : {1000, 20000, 200000, 2000000}) {
      const Config config = planned(
          yaml_of(layout), words + budget(device) + Words{ac(fmt::format("host_memory_budget={}", host))});
      const MemoryLedger memory = rank.require_plan(config).program.predicted();
      EXPECT_LE(memory.host_saved_bytes, host);
      EXPECT_EQ(memory.host_bytes, all.host_bytes + memory.host_saved_bytes);
      EXPECT_LE(memory.arena_bytes(), device);
      most = std::max(most, memory.host_saved_bytes);
    }
    EXPECT_GT(most, 0u) << "nothing went there";
  }
}

TEST(MemoryBudgets, OfHostAndDiskGiveTheBitsOfNone) {
  const TemporaryFolder folder;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{slow_device(folder), "model.n_layer=12"};
  const Trained none = train(yaml, words);
  const uint64_t bytes = none.predicted.front().arena_bytes() * 7 / 10;
  for (const Words& place :
       {Words{ac("host_memory_budget=2000000")},
        Words{ac("disk_checkpointing.path=") + folder.path(), ac("disk_checkpointing.limit=4000000")}}) {
    const Trained within = train(yaml, words + budget(bytes) + place);
    expect_same_bits(none, within, place.back());
    const MemoryLedger& memory = within.measured.front();
    EXPECT_LE(memory.arena_bytes(), bytes);
    if (place.size() == 1) {
      EXPECT_GT(memory.host_bytes, 0u);
      EXPECT_LE(memory.host_bytes, 2000000u);
    } else {
      EXPECT_GT(memory.disk_bytes, 0u);
      EXPECT_LE(memory.disk_bytes, 4000000u);
    }
  }
}

TEST(MemoryBudgets, AreKeptByThePlanOfEveryLength) {
  const TemporaryFolder folder;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{
      "data.format=jsonl",    "data.path=" + folder.write("lines.jsonl", lines_of_all_lengths()),
      "data.padding=longest", "data.pad_to_multiple_of=4",
      "training.max_steps=6", "training.micro_batch_size=4"};
  const Trained none = train(yaml, words);
  const uint64_t bytes = none.predicted.front().arena_bytes() * 85 / 100;
  const Words budgeted = words + budget(bytes);
  const Config config = planned(yaml, budgeted),
               fixed = planned(yaml, budgeted + Words{ac("budget_policy=static")});
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
    const Trained within = train(yaml, budgeted + Words{ac(std::string("budget_policy=") + policy)});
    expect_same_bits(none, within, policy);
    for (const MemoryLedger& memory : within.measured) EXPECT_LE(memory.arena_bytes(), bytes);
  }
}

// Where the search of a length finds nothing as good, its plan is the longest's. So it is of 14 tokens here.
TEST(MemoryBudgets, OfALengthGiveNoSlowerPlanThanTheLongests) {
  const TemporaryFolder folder;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{"model.n_layer=3",
                    "data.format=jsonl",
                    "data.path=" + folder.write("lines.jsonl", lines_of_all_lengths()),
                    "data.padding=longest",
                    "data.pad_to_multiple_of=1",
                    "training.micro_batch_size=4"};
  const Config none = planned(yaml, words);
  const PlannedRank rank(none, 0, 0);
  const uint64_t bytes = rank.require_plan(none).program.predicted().arena_bytes() * 70 / 100;
  const Config config = planned(yaml, words + budget(bytes)),
               fixed = planned(yaml, words + budget(bytes) + Words{ac("budget_policy=static")});
  const TrainingProgram longest = rank.require_plan(config);
  for (const BatchShape& shape : all_batch_shapes(config))
    EXPECT_LE(point_of(rank.plan_shorter(config, shape, longest)).seconds,
              point_of(rank.plan_shorter(fixed, shape, longest)).seconds)
        << shape.sequence_length;
}

// 10 000 micro-batches of 40 to 142 tokens a sequence, each in the program of its length.
TEST(MemoryBudgets, AreKeptByEachOfTenThousandLengths) {
  constexpr int64_t kLeast = 40, kMost = 142;
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  const Words words{"model.n_layer=2", "model.n_positions=142", "data.sequence_length=142",
                    "training.micro_batch_size=2"};
  const Config none = planned(yaml, words);
  const PlannedRank rank(none, 0, 0);
  const uint64_t bytes = rank.require_plan(none).program.predicted().arena_bytes() * 85 / 100;
  const Config config = planned(yaml, words + budget(bytes));
  const TrainingProgram longest = rank.require_plan(config);
  std::vector<Point> by_length{point_of(longest)};
  for (int64_t length = kMost - 1; length >= kLeast; --length)
    by_length.push_back(point_of(rank.plan_shorter(config, {2, length}, longest)));
  std::mt19937 random(1);
  int steps = 0;
  for (; steps < 10000; ++steps) ASSERT_LE(by_length[random() % by_length.size()].bytes, bytes);
  EXPECT_EQ(steps, 10000);
  EXPECT_LT(by_length.back().seconds, by_length.front().seconds);
}

TEST(MemoryBudgets, KeysWithoutEffectAreRefused) {
  const std::string yaml = yaml_of({"gpt2", kGpt2, 1, "fp32"});
  for (const Words& words :
       {Words{ac("mode=auto"), ac("memory_budget=0")},
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
