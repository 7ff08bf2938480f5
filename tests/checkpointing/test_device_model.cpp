// Rates, the share of a rank, and the presets.
#include <gtest/gtest.h>

#include "checkpointing/op_time.h"
#include "checkpointing/residency_ops.h"
#include "engine/ops/ops.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::device_model_test {
namespace {

TEST(DeviceModel, RatesLieBetweenTheirPoints) {
  const RateCurve curve{{10, 100}, {1000, 400}};
  EXPECT_DOUBLE_EQ(rate_at(curve, 1), 100);
  EXPECT_DOUBLE_EQ(rate_at(curve, 10), 100);
  EXPECT_DOUBLE_EQ(rate_at(curve, 100), 200);
  EXPECT_DOUBLE_EQ(rate_at(curve, 1e9), 400);
}

// Four cores, measured with one thread and with all: a memory of 40 bytes/s that one thread gets 25 of.
DeviceModel four_cores() {
  DeviceModel one{.name = "by hand", .gemm_f32 = 100, .memory_bandwidth = 25, .threads = 1};
  one.memory_levels = {{100, 50}, {1000, 25}};
  one.kernels["linear f32"] = {{1, 100}};
  DeviceModel all{.name = "by hand", .gemm_f32 = 360, .memory_bandwidth = 40, .threads = 4, .cores = 4};
  all.memory_levels = {{100, 200}, {1000, 40}};
  all.kernels["linear f32"] = {{1, 360}};
  all.disk_read_bandwidth = 8;
  all.fewer_threads = {one};
  return all;
}

TEST(DeviceModel, AShareHasItsThreadsAndItsPartOfTheMemory) {
  const DeviceModel device = four_cores();
  const DeviceModel alone = share_of_rank(device, 0, 1);
  EXPECT_EQ(alone.threads, 4) << "all the cores";
  EXPECT_EQ(alone.gemm_f32, 360);
  EXPECT_EQ(alone.spare_cores, 0);
  const DeviceModel single = share_of_rank(device, 1, 1);
  EXPECT_EQ(single.gemm_f32, 100);
  EXPECT_EQ(single.memory_levels[1].rate, 25);
  EXPECT_EQ(single.spare_cores, 3);
  EXPECT_EQ(single.disk_read_bandwidth, 8);
  const DeviceModel quarter = share_of_rank(device, 0, 4);
  EXPECT_EQ(quarter.threads, 1);
  EXPECT_EQ(quarter.gemm_f32, 100) << "each has a core";
  EXPECT_EQ(quarter.memory_levels[1].rate, 10) << "a fourth of what all get";
  EXPECT_EQ(quarter.disk_read_bandwidth, 2);
  EXPECT_DOUBLE_EQ(share_of_rank(device, 2, 1).gemm_f32, 180) << "in proportion to what was measured nearest";
}

TEST(DeviceModel, MoreThreadsThanCoresTakeTurns) {
  const DeviceModel device = four_cores();
  EXPECT_EQ(share_of_rank(device, 4, 2).gemm_f32, 180);
  EXPECT_EQ(share_of_rank(device, 4, 2).kernels.at("linear f32")[0].rate, 180);
  double before = 1e30;
  for (int64_t ranks : {1, 2, 4, 8, 64}) {
    const double rate = share_of_rank(device, 4, ranks).gemm_f32;
    EXPECT_LT(rate, before) << ranks;
    before = rate;
  }
}

TEST(DeviceModel, APresetIsEachRanksOwn) {
  const DeviceModel device = device_preset("cpu"), half = share_of_rank(device, 1, 1000);
  EXPECT_EQ(share_of_rank(device, 0, 1000).gemm_f32, device.gemm_f32);
  EXPECT_EQ(half.gemm_f32, device.gemm_f32 / 2) << "it has two threads";
  EXPECT_EQ(share_of_rank(device_preset("h200"), 1, 8).gemm_f32, device_preset("h200").gemm_f32);
}

// Data sheet of the H200 SXM: 989 TFLOP/s in bf16 and fp16, 67 outside the tensor cores.
TEST(DeviceModel, PresetsKeepTheRatiosOfTheDataSheet) {
  const DeviceModel h200 = device_preset("h200");
  EXPECT_LE(h200.gemm_f32, 67e12);
  EXPECT_LE(h200.gemm_f64, 67e12);
  EXPECT_GT(h200.gemm_bf16 / h200.gemm_f32, 989.0 / 67 * 0.8);
  OpRegistry registry;
  register_engine_ops(registry);
  const auto product_seconds = [&](DType dtype) {
    Graph graph;
    std::vector<ValueId> inputs;
    for (int i = 0; i < 2; ++i)
      inputs.push_back(graph.add_value({.name = "x",
                                        .shape = {4096, 4096},
                                        .dtype = dtype,
                                        .category = Category::kInput,
                                        .persistent = true}));
    const OpId id = graph.add_op({.def = registry.find("linear"), .name = "product", .inputs = inputs});
    return op_seconds(graph, graph.op(id), h200);
  };
  EXPECT_EQ(product_seconds(DType::kF16), product_seconds(DType::kBF16));
  EXPECT_GT(product_seconds(DType::kF32), 10 * product_seconds(DType::kBF16));
}

TEST(DeviceModel, PresetsAreComplete) {
  for (const char* name : {"cpu", "h200"}) {
    const DeviceModel d = device_preset(name);
    EXPECT_EQ(d.name, name);
    for (double rate : {d.gemm_f32, d.gemm_bf16, d.gemm_f64, d.attention_f32, d.attention_bf16,
                        d.vector_flops, d.memory_bandwidth, d.link_bandwidth, d.to_host_bandwidth,
                        d.to_device_bandwidth, d.disk_write_bandwidth, d.disk_read_bandwidth})
      EXPECT_GT(rate, 0) << name;
  }
  EXPECT_THROW(device_preset("abacus"), Error);
}

}  // namespace
}  // namespace recollect::test::device_model_test
