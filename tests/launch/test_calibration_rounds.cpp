// Rates that are measured in rounds: the faster of each is kept, how far they lie apart is said, and rounds that differ much
// are followed by another.
#include <gtest/gtest.h>

#include "checkpointing/device_file.h"
#include "launch/doctor/rounds.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::calibration_rounds_test {
namespace {

DeviceModel measured(double product, double memory, double overhead) {
  DeviceModel device = device_preset("cpu");
  device.name = "measured";
  device.cores = device.threads;
  device.launch_overhead = overhead;
  device.gemm_f32 = product;
  device.memory_levels = {{1e6, memory}, {1e8, memory / 2}};
  device.kernels["linear f32"] = {{1e6, product / 2}, {1e9, product}};
  return device;
}

TEST(CalibrationRounds, KeepTheFasterOfEach) {
  const DeviceModel rounds[] = {measured(100e9, 20e9, 5e-6), measured(104e9, 19e9, 6e-6)};
  int taken = 0;
  Spread spread;
  const DeviceModel device = measure_in_rounds([&] { return rounds[taken++]; }, spread);
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(device.gemm_f32, 104e9);
  EXPECT_EQ(device.launch_overhead, 5e-6);
  EXPECT_EQ(device.memory_levels, (RateCurve{{1e6, 20e9}, {1e8, 10e9}}));
  EXPECT_EQ(device.kernels.at("linear f32"), (RateCurve{{1e6, 52e9}, {1e9, 104e9}}));
  EXPECT_EQ(spread.rates, 4);
  EXPECT_NEAR(device.spread, 20. / 19 - 1, 1e-9) << "the median of 4, 4, 5.3 and 5.3 %";
  EXPECT_EQ(spread_text(spread), "2 rounds: rates differ by 5 % (median of 4), at most by 5 % (memory)");
}

TEST(CalibrationRounds, OneMoreFollowsWhereTheyLieApart) {
  const DeviceModel rounds[] = {measured(50e9, 10e9, 5e-6), measured(100e9, 20e9, 5e-6),
                                measured(101e9, 20e9, 5e-6)};
  int taken = 0;
  Spread spread;
  const DeviceModel device = measure_in_rounds([&] { return rounds[taken++]; }, spread);
  EXPECT_EQ(taken, 3);
  EXPECT_EQ(device.gemm_f32, 101e9);
  EXPECT_LT(device.spread, 0.02) << "the third is as the second was";
  taken = 0;
  const DeviceModel apart[] = {rounds[0], rounds[1], measured(300e9, 60e9, 5e-6), rounds[2]};
  EXPECT_GT(measure_in_rounds([&] { return apart[taken++]; }, spread).spread, kUselessSpread);
  EXPECT_EQ(taken, kMostRounds);
}

TEST(CalibrationRounds, ALargerAmountThatOneRoundReachedStays) {
  DeviceModel less = measured(100e9, 20e9, 5e-6), more = less;
  more.kernels["linear f32"].push_back({1e10, 110e9});
  int taken = 0;
  Spread spread;
  const DeviceModel device = measure_in_rounds([&] { return taken++ == 0 ? less : more; }, spread);
  EXPECT_EQ(device.kernels.at("linear f32").size(), 3u);
}

TEST(CalibrationRounds, TheFileSaysHowFarTheyLieApart) {
  const TemporaryFolder folder;
  DeviceModel device = measured(100e9, 20e9, 5e-6);
  device.spread = 0.12;
  const std::string path = folder.write("device.yaml", to_yaml(device));
  EXPECT_EQ(read_device_model(path).spread, 0.12);
  EXPECT_NE(describe(read_device_model(path)).find("; two measurements differed by 12 %"), std::string::npos);
  EXPECT_THROW(read_device_model(folder.write("wrong.yaml", to_yaml(device) + "spread: wide\n")), Error);
}

}  // namespace
}  // namespace recollect::test::calibration_rounds_test
