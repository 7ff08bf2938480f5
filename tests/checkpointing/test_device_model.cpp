// Rates, the share of a rank, and the presets.
#include <gtest/gtest.h>

#include <iterator>
#include <utility>

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

// Data sheets, of the SXM variants where there are some: products in bf16 (fp16 has the same, and is meant where there is no
// bf16) and outside the tensor cores, bytes of memory and of links a second. Ranks on cards without NVLink talk over PCIe.
struct DataSheet {
  const char* name;
  double bf16, f32, f64, memory, link, host;
  double host_memory;  // of a card: an eighth of a server's
};
constexpr DataSheet kDataSheets[] = {{"h200", 989e12, 67e12, 67e12, 4.8e12, 450e9, 63e9, 614e9 / 8},
                                     {"h100", 989e12, 67e12, 67e12, 3.35e12, 450e9, 63e9, 614e9 / 8},
                                     {"a100", 312e12, 19.5e12, 19.5e12, 2.04e12, 300e9, 32e9, 410e9 / 8},
                                     {"b200", 2250e12, 75e12, 37e12, 8e12, 900e9, 63e9, 717e9 / 8},
                                     {"v100", 125e12, 15.7e12, 7.8e12, 0.9e12, 150e9, 16e9, 256e9 / 8},
                                     {"rtx3090", 71e12, 35.6e12, 0.556e12, 0.936e12, 32e9, 32e9, 51e9},
                                     {"rtx4090", 165e12, 82.6e12, 1.29e12, 1.008e12, 32e9, 32e9, 90e9}};

double product_seconds(const DeviceModel& device, DType dtype) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const auto input = [&](Shape shape, DType of) {
    return graph.add_value(
        {.name = "x", .shape = shape, .dtype = of, .category = Category::kInput, .persistent = true});
  };
  const Shape square{4096, 4096};
  std::vector<ValueId> inputs{input(square, dtype), input(square, dtype)};
  if (is_float8(dtype)) {
    const ValueId scale = input({1}, DType::kF32);
    inputs = {inputs[0], scale, inputs[1], scale, input(square, DType::kBF16)};
  }
  const OpId id = graph.add_op({.def = registry.find(is_float8(dtype) ? "linear_fp8" : "linear"),
                                .name = "product",
                                .inputs = inputs});
  return op_seconds(graph, graph.op(id), device);
}

TEST(DeviceModel, PresetsKeepTheRatiosOfTheDataSheet) {
  for (const DataSheet& sheet : kDataSheets) {
    const DeviceModel device = device_preset(sheet.name);
    struct Rate {
      double reached, promised, share;  // at least so much of what is promised
    };
    const Rate rates[] = {{device.gemm_bf16, sheet.bf16, 0.62},
                          {device.gemm_f32, sheet.f32, 0.74},
                          {device.gemm_f64, sheet.f64, 1},
                          {device.attention_bf16, sheet.bf16, 0.37},
                          {device.attention_f32, sheet.f32, 0.12},
                          {device.vector_flops, sheet.f32, 0.89},
                          {device.memory_bandwidth, sheet.memory, 0.72},
                          {device.link_bandwidth, sheet.link, 0.77},
                          {device.to_host_bandwidth, sheet.host, 0.78},
                          {device.to_device_bandwidth, sheet.host, 0.78},
                          {device.host_memory_bandwidth, sheet.host_memory, 0.7}};
    for (const auto& [reached, promised, share] : rates) {
      EXPECT_LE(reached, promised) << sheet.name;
      EXPECT_GE(reached, share * promised) << sheet.name;
    }
    // Of no data sheet: microseconds, and what one drive does.
    EXPECT_NEAR(device.link_latency, 10e-6, 5e-6) << sheet.name;
    EXPECT_NEAR(device.launch_overhead, 3.3e-6, 1.5e-6) << sheet.name;
    EXPECT_NEAR(device.disk_write_bandwidth, 4e9, 1e9) << sheet.name;
    EXPECT_EQ(device.disk_read_bandwidth, 2 * device.disk_write_bandwidth) << sheet.name;
    EXPECT_GT(device.gemm_bf16 / device.gemm_f32, sheet.bf16 / sheet.f32 * 0.8) << sheet.name;
    EXPECT_EQ(product_seconds(device, DType::kF16), product_seconds(device, DType::kBF16)) << sheet.name;
    EXPECT_GT(product_seconds(device, DType::kF32) / product_seconds(device, DType::kBF16),
              0.65 * sheet.bf16 / sheet.f32)
        << sheet.name;
  }
  EXPECT_EQ(device_preset("h100").gemm_bf16, device_preset("h200").gemm_bf16) << "the same processor";
  // Of a square product, without its launch.
  const double launch = device_preset("h100").launch_overhead;
  const double fp8 = product_seconds(device_preset("h100"), DType::kE4M3) - launch;
  EXPECT_NEAR(fp8, (product_seconds(device_preset("h100"), DType::kBF16) - launch) / 2, 0.02 * fp8);
  for (const char* name : {"h100", "h200", "b200", "rtx4090"})
    EXPECT_EQ(gemm_rate(device_preset(name), DType::kE5M2), 2 * gemm_rate(device_preset(name), DType::kBF16))
        << name;
  for (const char* name : {"a100", "v100", "rtx3090", "cpu"})  // no units for it
    EXPECT_EQ(gemm_rate(device_preset(name), DType::kE4M3), gemm_rate(device_preset(name), DType::kBF16))
        << name;
}

TEST(DeviceModel, PresetsAreComplete) {
  EXPECT_EQ(device_preset_names().size(), std::size(kDataSheets) + 1);
  for (const std::string_view name : device_preset_names()) {
    const DeviceModel d = device_preset(name);
    EXPECT_EQ(d.name, name);
    EXPECT_TRUE(is_preset(d)) << name;
    for (double rate : {d.gemm_f32, d.gemm_bf16, d.gemm_f64, d.attention_f32, d.attention_bf16,
                        d.vector_flops, d.memory_bandwidth, d.link_bandwidth, d.to_host_bandwidth,
                        d.to_device_bandwidth, d.disk_write_bandwidth, d.disk_read_bandwidth})
      EXPECT_GT(rate, 0) << name;
    EXPECT_EQ(d.host_memory_bandwidth > 0, name != "cpu") << "a device has the host's beside its own";
  }
  EXPECT_THROW(device_preset("abacus"), Error);
}

}  // namespace
}  // namespace recollect::test::device_model_test
