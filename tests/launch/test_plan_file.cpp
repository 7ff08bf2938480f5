// Plan files: what is written reads back, and nothing is read that was not meant.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "checkpointing/plan_file.h"
#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "launch/ranks/world.h"
#include "tests/launch/modes.h"
#include "tests/launch/planned.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::plan_file_test {
namespace {

const char* const kPlanFileYaml = R"(
model: {type: gpt2, vocab_size: 23, n_positions: 5, n_embd: 12, n_layer: 3, n_head: 2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 1}
data: {format: random}
)";

// What `use` sees: the graph before recomputation has the same forward values as the program's.
template <typename Use>
void with_program(const std::vector<std::string>& overrides, const Use& use) {
  Config config = read_config_text("test.yaml", kPlanFileYaml, overrides);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  const Mesh mesh(*world, training_axes(1, 1));
  use(make_training_program(config, mesh, kernels_of(config.device.backend, config.device.isa), batch_shape(config)));
}

Plan read(const std::string& text, int tensor_size = 1) {
  Plan plan;
  with_program({}, [&](const TrainingProgram& training) {
    const Graph& graph = training.program.graph;
    plan = read_plan_text("plan.yaml", text, graph, SavedActivations(graph), tensor_size);
  });
  return plan;
}

std::string complaint(const std::string& text, int tensor_size = 1) {
  try {
    read(text, tensor_size);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return error.what();
  }
  return "none";
}

TEST(PlanFile, WhatIsWrittenReadsBack) {
  for (const std::string_view mode : kModes)
    for (const char* host : {"true", "false"}) {
      std::vector<std::string> words = mode_words(mode);
      words.push_back(ac("cpu_checkpointing=") + host);
      with_program(words, [&](const TrainingProgram& training) {
        EXPECT_EQ(read(to_yaml(training.checkpointed.plan)), training.checkpointed.plan) << mode;
      });
    }
  Plan divided =
      read("values: {layer1/attn/residual: partitioned, layer0/attn/residual: partitioned+host}", 2);
  EXPECT_TRUE(divided.values.at("layer1/attn/residual").partition &&
              divided.values.at("layer0/attn/residual").host);
  const Plan disk = read("values: {layer0/attn/qkv: disk, layer0/attn/residual: host+disk}");
  EXPECT_TRUE(disk.values.at("layer0/attn/qkv").disk && !disk.values.at("layer0/attn/qkv").host);
  for (const bool partition : {false, true})
    for (const bool host : {false, true}) {
      Plan plan;
      for (const auto& [name, decision] : divided.values) plan.values[name] = {};
      plan.values.at("layer0/attn/residual") = {.partition = partition, .host = host, .disk = true};
      EXPECT_EQ(read(to_yaml(plan), 2), plan) << to_yaml(plan);
    }
  with_program({}, [&](const TrainingProgram& training) {
    const Graph& graph = training.program.graph;
    EXPECT_EQ(read_plan_text("plan.yaml", to_yaml(divided), graph, SavedActivations(graph), 2), divided);
  });
}

TEST(PlanFile, TheLastPatternThatMatchesDecides) {
  const Plan plan =
      read("replay: bisect\nvalues:\n  layer*: recompute\n  layer*/attn/qkv: host\n  layer1*qkv: device\n");
  EXPECT_EQ(plan.replay, Replay::kBisect);
  EXPECT_EQ(word_of(plan.values.at("layer0/attn/qkv")), "host");
  EXPECT_EQ(word_of(plan.values.at("layer1/attn/qkv")), "device");
  EXPECT_EQ(word_of(plan.values.at("layer1/mlp/fc1")), "recompute");
  EXPECT_EQ(word_of(plan.values.at("embedding/dropout")), "device");
}

TEST(PlanFile, WhatCannotBeMeantIsAnError) {
  EXPECT_EQ(complaint("values:\n  layer0/attn/qkv: hots\n").find("plan.yaml:2:20: layer0/attn/qkv: "), 0u)
      << complaint("values:\n  layer0/attn/qkv: hots\n");
  EXPECT_EQ(complaint("values:\n  layer0/atn/qkv: host\n"),
            "plan.yaml:2:3: 'layer0/atn/qkv' matches no value that backward needs; did you mean "
            "'layer0/attn/qkv'?");
  EXPECT_EQ(complaint("values:\n  layer7/*: host\n"),
            "plan.yaml:2:3: 'layer7/*' matches no value that backward needs");
  EXPECT_EQ(complaint("valeus: {}\n"),
            "plan.yaml:1:1: unknown key 'valeus'; did you mean 'values'?\n"
            "plan.yaml:1:1: 'values' is missing");
  EXPECT_EQ(complaint("replay: segments\nvalues: {}\n").find("plan.yaml:1:9: replay: "), 0u);
  EXPECT_EQ(complaint("values: {layer0/attn/qkv: host, layer0/attn/qkv: device}\n").find("plan.yaml:1:"), 0u);
  EXPECT_EQ(complaint("values: {layer*: partitioned}\n"),
            "plan.yaml:1:10: layer*: nothing can be partitioned over one tensor rank");
  EXPECT_NE(complaint("[1]").find("expected a mapping"), std::string::npos);
  EXPECT_EQ(complaint("").find("plan.yaml:1:1: empty"), 0u);
}

TEST(PlanFile, ReplacesModeAndSwitches) {
  const TemporaryFolder folder;
  write_text_file(folder.file("plan.yaml"), "values: {layer*: recompute, layer*/mlp/residual: device}\n");
  const std::string plan = "activation_checkpointing.plan=" + folder.file("plan.yaml");
  expect_same_bits(train(kPlanFileYaml), train(kPlanFileYaml, {plan}), "plan");
  EXPECT_THROW(train(kPlanFileYaml, {plan, "activation_checkpointing.mode=full"}), Error);
  EXPECT_THROW(train(kPlanFileYaml, {plan, "activation_checkpointing.cpu_checkpointing=true"}), Error);
  EXPECT_THROW(train(kPlanFileYaml, {"activation_checkpointing.plan=" + folder.file("absent.yaml")}), Error);
  write_text_file(folder.file("disk.yaml"), "values: {layer0/mlp/residual: disk}\n");
  const std::string disk = "activation_checkpointing.plan=" + folder.file("disk.yaml");
  EXPECT_THROW(train(kPlanFileYaml, {disk}), Error) << "nobody says where the disk is";
  const std::string path = "activation_checkpointing.disk_checkpointing.path=" + folder.file("");
  expect_same_bits(train(kPlanFileYaml), train(kPlanFileYaml, {disk, path}), "plan with a disk");
  EXPECT_THROW(train(kPlanFileYaml, {plan, path}), Error) << "a disk that the plan does not use";
}

// What is needed at once stays on the device, whatever it was to do: a run's own plan says so, and is no file that the next
// run refuses.
TEST(PlanFile, OfARunIsWhatItCarriedOut) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan.yaml"), disk = ac("disk_checkpointing.path=") + folder.file("");
  const auto plan_of = [](const Words& words) {
    const Config config = planned(kPlanFileYaml, words);
    return PlannedRank(config, 0, 0).plan(config);
  };
  int read = 0;
  const auto check = [&](const std::string& layers, const Words& words) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(words, " ")));
    const Checkpointed run = plan_of(words + Words{layers}).checkpointed;
    if (run.refusal) return;
    const auto any = [&](auto is) {
      return std::any_of(run.plan.values.begin(), run.plan.values.end(),
                         [&](const auto& item) { return is(item.second); });
    };
    const bool uses_disk = any([](const Decision& d) { return d.disk; });
    EXPECT_EQ(any([](const Decision& d) { return d.host; }), run.residency.host_values > 0);
    EXPECT_EQ(uses_disk, run.residency.disk_values > 0);
    if (!any([](const Decision& d) { return d != Decision{}; })) return;  // mode none
    write_text_file(path, to_yaml(run.plan));
    const Words again{layers, ac("plan=") + path};
    const Checkpointed from_file = plan_of(uses_disk ? again + Words{disk} : again).checkpointed;
    ASSERT_FALSE(from_file.refusal) << from_file.refusal->what();
    EXPECT_EQ(from_file.plan, run.plan);
    ++read;
  };
  const Words host{ac("cpu_checkpointing=true")};
  for (const std::string layers : {"model.n_layer=1", "model.n_layer=3"}) {
    const uint64_t none = plan_of({layers}).program.predicted().arena_bytes();
    for (const Words& elsewhere : {host, Words{disk}, host + Words{disk}}) {
      check(layers, elsewhere + Words{ac("mode=full")});
      for (const char* mode : {"mode=auto", "mode=dtr"})
        for (const uint64_t percent : {88, 92, 97})
          check(layers,
                elsewhere + Words{ac(mode), ac(fmt::format("memory_budget={}", none * percent / 100))});
    }
  }
  EXPECT_GT(read, 5);
}

TEST(PlanFile, RanksWithDifferentPlansStop) {
  const Config config = read_config_text("test.yaml", kPlanFileYaml, {"parallelism.ranks_per_process=2"});
  std::unique_ptr<MpiEnvironment> mpi;
  Plan plan;
  plan.values["layer0/attn/qkv"] = {};
  run_ranks(config, mpi, [&](Communicator& world) { check_plans_agree(plan, {}, world); });
  try {
    run_ranks(config, mpi, [&](Communicator& world) {
      Plan mine = plan;
      if (world.rank() == 1) mine.values["layer0/attn/qkv"].save = false;
      check_plans_agree(mine, {}, world);
    });
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
    EXPECT_NE(std::string(error.what()).find("values.layer0/attn/qkv: device on rank 0; recompute on rank 1"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace recollect::test::plan_file_test
