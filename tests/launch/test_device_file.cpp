// Files of devices: what is written is read back, what is wrong is named, and the first version is still
// read.
#include <gtest/gtest.h>

#include "checkpointing/device_file.h"
#include "engine/core/error.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::device_file_test {
namespace {

class DeviceFile : public ::testing::Test {
 protected:
  DeviceModel read(const std::string& text) { return read_device_model(folder_.write("device.yaml", text)); }

  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      return error.what();
    }
    return "accepted";
  }

  // A machine of two cores, in round numbers.
  static DeviceModel measured() {
    DeviceModel device = device_preset("cpu");
    device.cores = 2;
    device.launch_overhead = 0;
    device.memory_levels = {{1e6, 4e10}, {1e9, 2e10}};
    device.copies = {{1e6, 8e9}};
    device.kernels["linear f32"] = {{1e6, 1e11}, {1e9, 4e11}};
    device.fewer_threads = {device};
    DeviceModel& one = device.fewer_threads[0];
    one.threads = 1;
    one.cores = 0;
    for (double DeviceModel::*rate : {&DeviceModel::gemm_f32, &DeviceModel::attention_f32,
                                      &DeviceModel::vector_flops, &DeviceModel::memory_bandwidth})
      one.*rate /= 2;
    one.kernels["linear f32"] = {{1e6, 8e10}, {1e9, 2e11}};
    one.disk_write_bandwidth = one.disk_read_bandwidth = 0;
    return device;
  }

  test::TemporaryFolder folder_;
};

// With a named mode `estimate` cannot tell the time of such a step; a planner would never use the disk.
TEST_F(DeviceFile, WithoutTheDisksSpeedPlansWithNone) {
  DeviceModel device = measured();
  device.disk_write_bandwidth = device.disk_read_bandwidth = 0;
  const std::string file = folder_.write("device.yaml", to_yaml(device));
  for (const char* mode : {"auto", "dtr"}) try {
      read_config_text("c.yaml", "data: {format: random}",
                       {"device.model=" + file, "activation_checkpointing.mode=" + std::string(mode),
                        "activation_checkpointing.memory_budget=1GiB",
                        "activation_checkpointing.disk_checkpointing.path=" + folder_.path()});
      ADD_FAILURE() << mode;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      EXPECT_NE(std::string(error.what()).find("does not know how fast it is; `recollect calibrate --disk"),
                std::string::npos)
          << error.what();
    }
}

TEST_F(DeviceFile, IsReadBackAsItWasWritten) {
  const DeviceModel device = measured(), again = read(to_yaml(device));
  EXPECT_EQ(to_yaml(again).substr(to_yaml(again).find("cores")),
            to_yaml(device).substr(to_yaml(device).find("cores")));
  EXPECT_EQ(again.cores, 2);
  EXPECT_EQ(again.threads, 2);
  EXPECT_EQ(again.memory_levels, device.memory_levels);
  EXPECT_EQ(again.kernels, device.kernels);
  ASSERT_EQ(again.fewer_threads.size(), 1u);
  EXPECT_EQ(again.fewer_threads[0].threads, 1);
  EXPECT_EQ(again.fewer_threads[0].kernels, device.fewer_threads[0].kernels);
}

TEST_F(DeviceFile, OfTheFirstVersionHasOneRateEach) {
  std::string text = to_yaml(device_preset("a100"));
  text.erase(0, text.find("name"));
  const DeviceModel device = read(text);
  EXPECT_EQ(device.threads, 0);
  EXPECT_EQ(share_of_rank(device, 1, 64).gemm_f32, device.gemm_f32);
  EXPECT_NE(describe(device).find("knows neither threads nor sizes"), std::string::npos);
}

TEST_F(DeviceFile, IsRefusedWithTheKeyThatIsWrong) {
  const std::string good = to_yaml(measured());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return refusal(text);
  };
  const std::pair<std::string, std::string> wrong[] = {
      {with("version: 2", "version: 3"), "version 3 is newer than this recollect"},
      {with("gemm_f32: ", "gemm_f23: "), "gemm_f32 is missing"},
      {with("threads: 2", "threads: two"), "threads: 'two' is no number"},
      {with("{1e+06: 4e+10", "{1e+06: quick"), "memory_levels: '1e+06': 'quick' is no rate of an amount"},
      {with("{1e+06: 4e+10, 1e+09", "{1e+09: 4e+10, 1e+06"),
       "memory_levels: the amounts are not in ascending order"},
      {with("copies: {1e+06: 8e+09}", "copies: 8e+09"), "copies: expected {amount: rate, ...}"},
      {with("cores: 2", "kernel: 2"), "unknown key 'kernel'"},
      {with("    threads: 1", "    threads: 2"),
       "fewer_threads: expected threads, fewer than those of the file"},
  };
  for (const auto& [said, expected] : wrong) EXPECT_NE(said.find(expected), std::string::npos) << said;
}

// The same configuration on fewer threads takes longer, and so does each of two ranks with a thread for all
// cores.
TEST_F(DeviceFile, ThreadsAndRanksEnterThePredictedTime) {
  const std::string device = folder_.write("device.yaml", to_yaml(measured()));
  const auto seconds = [&](int threads, int data) {
    Config config =
        read_config_text("test.yaml",
                         "model: {type: gpt2, vocab_size: 64, n_positions: 64, n_embd: 64, n_layer: 2, "
                         "n_head: 4}\ntraining: {micro_batch_size: 4, max_steps: 1}\n"
                         "data: {format: random, sequence_length: 64}\n",
                         {"device.model=" + device, "device.threads=" + std::to_string(threads),
                          "parallelism.data_parallel_size=" + std::to_string(data)});
    resolve_planned_world(config);
    return estimate(config, Ranks::kFirst).simulation.step_seconds;
  };
  const double two = seconds(2, 1), one = seconds(1, 1), crowded = seconds(2, 4);
  EXPECT_GT(one, 1.2 * two);
  EXPECT_GT(seconds(1, 2), one) << "they share the memory, and reduce gradients";
  EXPECT_GT(crowded, 2 * two) << "eight threads on two cores";
}

}  // namespace
}  // namespace recollect::test::device_file_test
