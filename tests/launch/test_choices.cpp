// What users leave open is decided by the simulator: more layers only where links are slow, within the memory
// that was predicted, and never another bit.
#include <gtest/gtest.h>

#include <ctime>

#include "checkpointing/choose.h"
#include "checkpointing/device_file.h"
#include "checkpointing/plan_file.h"
#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/ranks/world.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::choices_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 7, n_head: 4, n_inner: 36,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 3, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 8}
)";

const char* const kGpt2 = RECOLLECT_SOURCE_DIR "/configs/gpt2-124m.yaml";

// Files of devices that differ in their links to the host alone.
class Choices : public ::testing::Test {
 protected:
  Choices() {
    DeviceModel device = device_preset("h200");
    write_text_file(file("fast"), to_yaml(device));
    device.to_host_bandwidth = device.to_device_bandwidth = kSlow;
    write_text_file(file("slow"), to_yaml(device));
  }
  std::string file(const std::string& name) const { return folder_.file(name + ".yaml"); }

  std::vector<std::string> words(const std::string& device, int tensor,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> list = {"device.model=" + file(device),
                                     "parallelism.tensor_parallel_size=" + std::to_string(tensor),
                                     "parallelism.ranks_per_process=" + std::to_string(tensor)};
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }
  PlannedTraining plan(const std::vector<std::string>& words) const {
    Config config = read_config_text("test.yaml", kYaml, words);
    resolve_planned_world(config);
    return plan_training(config, 0, 0);
  }
  ResidencySettings chosen(const std::string& device, int tensor,
                           const std::vector<std::string>& more) const {
    return plan(words(device, tensor, more)).training.checkpointed.moves;
  }

  static constexpr double kSlow = 5e6;  // bytes/s: a layer's input takes as long as several layers
  TemporaryFolder folder_;
  const std::string full_ = ac("mode=full"), host_ = ac("cpu_checkpointing=true"),
                    partition_ = ac("partition_activations=true");
};

TEST_F(Choices, SlowLinksWantMoreAndFastOnesDoNot) {
  for (const auto& [tensor, switches] :
       {std::pair{1, std::vector{full_, host_}}, {2, std::vector{full_, partition_, host_}}}) {
    const ResidencySettings fast = chosen("fast", tensor, switches), slow = chosen("slow", tensor, switches);
    EXPECT_EQ(fast.keep_last, 1);
    EXPECT_EQ(fast.prefetch, 1);
    EXPECT_GT(slow.keep_last + slow.prefetch, 2);
    EXPECT_LE(slow.keep_last, kMostLayers);
    EXPECT_LE(slow.prefetch, kMostLayers);
  }
}

TEST_F(Choices, AreNoSlowerThanTheStartAndNoOneMoreIsWorthIt) {
  const auto seconds = [&](int64_t keep_last, int64_t prefetch) {
    const PlannedTraining p = plan(words("slow", 1,
                                         {full_, host_, ac("keep_last=" + std::to_string(keep_last)),
                                          ac("prefetch=" + std::to_string(prefetch))}));
    return simulate(p.training.program.graph, p.training.program.schedule, p.training.device, 1).step_seconds;
  };
  const ResidencySettings best = chosen("slow", 1, {full_, host_});
  const double time = seconds(best.keep_last, best.prefetch);
  EXPECT_LT(time, seconds(1, 1) * (1 - kLeastGain));
  // The optimizer, which no choice changes, is part of these times: what is worth less than 1 % without it is
  // so with it.
  if (best.keep_last < kMostLayers) {
    EXPECT_GE(seconds(best.keep_last + 1, best.prefetch), time * (1 - kLeastGain));
  }
  if (best.prefetch < kMostLayers) {
    EXPECT_GE(seconds(best.keep_last, best.prefetch + 1), time * (1 - kLeastGain));
  }
}

TEST_F(Choices, WhatIsGivenWins) {
  const ResidencySettings given = chosen("slow", 1, {full_, host_, ac("keep_last=1"), ac("prefetch=1")});
  EXPECT_EQ(given.keep_last, 1);
  EXPECT_EQ(given.prefetch, 1);
  const PlannedTraining half = plan(words("slow", 1, {full_, host_, ac("keep_last=2")}));
  ASSERT_EQ(half.training.checkpointed.choices.size(), 2u);
  EXPECT_EQ(half.training.checkpointed.choices[0].layers, 2);
  EXPECT_EQ(half.training.checkpointed.choices[0].reason, "given");
  EXPECT_EQ(half.training.checkpointed.choices[1].reason, "simulated");
  EXPECT_TRUE(plan(words("slow", 1, {full_})).training.checkpointed.choices.empty())
      << "nothing leaves, so nothing was chosen";
}

TEST_F(Choices, WhatIsRoundedDoesNotDependOnThem) {
  EXPECT_GT(chosen("slow", 1, {full_, host_}).keep_last, 1);
  EXPECT_EQ(chosen("slow", 1, {full_, host_, ac("storage_dtype=bf16")}).keep_last, 1);
}

TEST_F(Choices, NeverKeepEverything) {
  for (int layers : {2, 3, 4}) {
    const PlannedTraining p =
        plan(words("slow", 1, {full_, host_, "model.n_layer=" + std::to_string(layers)}));
    EXPECT_GT(p.training.checkpointed.residency.host_values, 0) << layers;
  }
}

TEST_F(Choices, StayWithinTheMemoryLimit) {
  const auto bytes = [&](const std::vector<std::string>& more) {
    return plan(words("slow", 1, more)).training.program.predicted().arena_bytes();
  };
  const uint64_t least = bytes({full_, host_, ac("keep_last=1"), ac("prefetch=1")}),
                 more = bytes({full_, host_});
  ASSERT_LT(least, more) << "what is chosen costs memory";
  const std::string limit = "device.memory_limit=" + std::to_string(least);
  EXPECT_EQ(bytes({full_, host_, limit}), least);
  EXPECT_EQ(plan(words("slow", 1, {full_, host_, limit})).training.checkpointed.choices[0].reason,
            "device.memory_limit");
  EXPECT_EQ(bytes({full_, host_, "device.memory_limit=" + std::to_string(more)}), more);
}

TEST_F(Choices, ArePredictedToTheByte) {
  for (int tensor : {1, 2}) {
    std::vector<std::string> list = words("slow", tensor, {full_, host_});
    if (tensor > 1) list.push_back(partition_);
    Config config = read_config_text("test.yaml", kYaml, list);
    resolve_planned_world(config);
    const Estimate e = estimate(config);
    const Trained run = train(kYaml, list);
    for (const MemoryLedger& measured : run.measured) EXPECT_EQ(e.memory, measured);
    expect_same_bits(train(kYaml, words("slow", tensor, {})), run, "chosen");
  }
}

TEST_F(Choices, AnyNumbersGiveTheBitsOfNone) {
  for (int tensor : {1, 2}) {
    const Trained none = train(kYaml, words("fast", tensor, {}));
    for (int keep_last = 0; keep_last <= 4; ++keep_last)
      for (int prefetch = 0; prefetch <= 4; ++prefetch) {
        std::vector<std::string> list = words("fast", tensor,
                                              {full_, host_, ac("keep_last=" + std::to_string(keep_last)),
                                               ac("prefetch=" + std::to_string(prefetch))});
        if (tensor > 1) list.push_back(partition_);
        expect_same_bits(none, train(kYaml, list),
                         "keep_last " + std::to_string(keep_last) + ", prefetch " + std::to_string(prefetch));
      }
  }
}

// Every trial is a copy, a pass and a simulation; there are at most eight, whatever the model.
TEST_F(Choices, OfGpt2AtTensorDegreeFourTakeNoTime) {
  Config config = read_config(kGpt2, {"parallelism.tensor_parallel_size=4", "data.sequence_length=128",
                                      "training.micro_batch_size=8", ac("mode=none"), partition_, host_});
  resolve_planned_world(config);
  const auto fastest = [&] {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t begin = std::clock();
      plan_training(config, 0, 0);
      best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  config.device.model = file("slow");
  const double open = fastest();
  config.activation_checkpointing.keep_last = config.activation_checkpointing.prefetch = 1;
  const double given = fastest();
  RecordProperty("milliseconds", static_cast<int>(1e3 * (open - given)));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(open - given, 0.2);
#endif
}

TEST_F(Choices, RanksWithOtherDevicesOrOtherChoicesStop) {
  const Config config = read_config_text("test.yaml", kYaml, {"parallelism.ranks_per_process=2"});
  std::unique_ptr<MpiEnvironment> mpi;
  const auto complaint = [&](const std::function<void(Communicator&)>& body) -> std::string {
    try {
      run_ranks(config, mpi, body);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
      return error.what();
    }
    return "none";
  };
  const auto devices = [&](const std::string& other) {
    return complaint([&](Communicator& world) {
      check_device_models_agree(read_device_model(file(world.rank() == 0 ? "fast" : other)), world);
    });
  };
  EXPECT_EQ(devices("fast"), "none");
  EXPECT_NE(devices("slow").find("the ranks have different device models\nto_device_bandwidth: "),
            std::string::npos)
      << devices("slow");
  const std::string plans =
      complaint([&](Communicator& world) { check_plans_agree({}, {.keep_last = 1 + world.rank()}, world); });
  EXPECT_NE(plans.find("keep_last: 1 on rank 0; 2 on rank 1"), std::string::npos) << plans;
  const std::string attention =
      complaint([&](Communicator& world) { check_plans_agree({}, {}, world, world.rank() == 1); });
  EXPECT_NE(attention.find("keys_in_order: false on rank 0; true on rank 1"), std::string::npos) << attention;
}

}  // namespace
}  // namespace recollect::test::choices_test
