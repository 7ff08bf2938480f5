// Times are shown by rates that were measured on this machine, or not at all; plans never follow from them.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "checkpointing/device_file.h"
#include "launch/doctor/machine_rates.h"
#include "launch/program/estimate.h"
#include "launch/ranks/cores.h"
#include "launch/report/rank_report.h"
#include "tests/launch/planned.h"
#include "tests/launch/process.h"

namespace recollect::test::machine_rates_test {
namespace {

const std::string kYaml = R"(
model: {vocab_size: 64, n_positions: 32, n_embd: 32, n_layer: 6, n_head: 4}
training: {micro_batch_size: 2}
device: {threads: 1}
data: {format: random, sequence_length: 32}
)";

// The user's cache folder, for as long as it lives.
class CacheFolder {
 public:
  CacheFolder() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~CacheFolder() { ::setenv("XDG_CACHE_HOME", "/dev/null", 1); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  std::vector<std::string> files() const {
    std::vector<std::string> files;
    if (std::filesystem::exists(folder_.file("recollect")))
      for (const auto& entry : std::filesystem::directory_iterator(folder_.file("recollect")))
        files.push_back(entry.path());
    return files;
  }

 private:
  TemporaryFolder folder_;
};

Config fitted(const Words& words = {}) {
  Config config = planned(kYaml, words);
  resolve_planned_world(config);
  return config;
}

// Twice as fast as the preset in products, and slower in all else: another ratio of the two.
DeviceModel other_rates() {
  DeviceModel device = device_preset("cpu");
  device.name = kRatesOfMachine;
  device.gemm_f32 *= 2;
  device.memory_bandwidth /= 4;
  device.launch_overhead *= 10;
  return device;
}

TEST(MachineRates, DecideNothing) {
  const Words budget{"activation_checkpointing.mode=auto", "activation_checkpointing.memory_budget=1600KiB"};
  const Config preset = fitted(budget);
  Config shown = preset;
  shown.device.of_machine = std::make_shared<const DeviceModel>(other_rates());
  const PlannedTraining by_preset = plan_training(preset, 0, 0), by_both = plan_training(shown, 0, 0);
  EXPECT_EQ(by_both.training.checkpointed.plan, by_preset.training.checkpointed.plan);
  EXPECT_EQ(by_both.training.program.predicted(), by_preset.training.program.predicted());
  EXPECT_EQ(by_both.training.device.name, "cpu");
  const Estimate a = estimate(preset), b = estimate(shown);
  EXPECT_EQ(b.memory, a.memory);
  EXPECT_EQ(b.device.name, kRatesOfMachine);
  EXPECT_GT(b.simulation.step_seconds, 1.5 * a.simulation.step_seconds);
}

TEST(MachineRates, AreMeasuredOnceOrNotAtAll) {
  const CacheFolder cache;
  Config first = fitted();
  if (const std::string why = learn_machine_rates(first); !why.empty()) {
    EXPECT_TRUE(why.starts_with("this machine is busy")) << why;
    EXPECT_FALSE(first.device.of_machine);
    EXPECT_TRUE(cache.files().empty());
    return;
  }
  ASSERT_EQ(cache.files().size(), 1u);
  ASSERT_TRUE(first.device.of_machine);
  for (const char* kernel : {"linear f32", "attention_backward f32", "adamw f32", "layer_norm f32"})
    EXPECT_TRUE(first.device.of_machine->kernels.contains(kernel)) << kernel;
  Config second = fitted();
  EXPECT_EQ(learn_machine_rates(second), "");
  EXPECT_EQ(to_yaml(*second.device.of_machine), to_yaml(*first.device.of_machine))
      << "they were measured again";
  EXPECT_EQ(cache.files().size(), 1u);
}

TEST(MachineRates, AreOfNoUseWhereRanksTakeTurnsOrTimesGoByAnotherModel) {
  const CacheFolder cache;
  const std::string ranks = std::to_string(2 * usable_cores());
  Config many = fitted({"parallelism.data_parallel_size=" + ranks, "training.global_batch_size=0"});
  EXPECT_NE(learn_machine_rates(many).find("take turns on "), std::string::npos);
  Config of_gpu = fitted({"device.model=h200"});
  EXPECT_EQ(learn_machine_rates(of_gpu), "");
  EXPECT_FALSE(many.device.of_machine || of_gpu.device.of_machine);
  EXPECT_TRUE(cache.files().empty());
}

TEST(MachineRates, NoSecondsAreSaidWithoutThem) {
  const Words kOnCpu{"device.backend=cpu", "training.precision=fp32"};
  const Workplace place;
  const Finished estimated = place.recollect(Words{"estimate", "c.yaml"} + kOnCpu);
  EXPECT_NE(estimated.out.find(
                "step: not predicted in seconds: there is no folder to keep the rates of this machine in\n"),
            std::string::npos)
      << estimated.out;
  const Finished trained = place.train(kOnCpu + Words{"logging.verbose=true"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.out.find("\nstep: measured "), std::string::npos) << trained.out;
  EXPECT_NE(trained.out.find(" (median); 0 ms exposed waits"), std::string::npos) << trained.out;
  EXPECT_EQ(trained.out.find("by the preset"), std::string::npos) << trained.out;
}

}  // namespace
}  // namespace recollect::test::machine_rates_test
