// The simulator on graphs small enough to time by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpointing/residency_ops.h"
#include "checkpointing/simulator.h"
#include "engine/graph/op_def.h"
#include "engine/ops/ops.h"

namespace recollect {
namespace {

constexpr double kCompute = 3;  // seconds of the op that the copies may hide behind

// make -> out -> back on two side streams, while `work` runs; then `use` reads what came back.
class Copies {
 public:
  Copies() {
    register_engine_ops(registry_);
    register_checkpointing_ops(registry_);
    const ValueId x =
        graph_.add_value({.name = "x", .shape = {8}, .category = Category::kInput, .persistent = true});
    made_ = add("make", "add", {x, x});
    const ValueId away = add("out", "copy_to_host", {made_}, StreamId::kDeviceToHost);
    const ValueId again = add("back", "copy_to_device", {away}, StreamId::kHostToDevice);
    const ValueId worked = add("work", "add", {x, x});
    used_ = add("use", "add", {again, worked});
  }

  ValueId add(const char* name, const char* kind, std::vector<ValueId> inputs,
              StreamId stream = StreamId::kCompute, Phase phase = Phase::kForward,
              RunWhen when = RunWhen::kAlways) {
    const OpId id = graph_.add_op({.def = registry_.find(kind),
                                   .name = name,
                                   .inputs = std::move(inputs),
                                   .phase = phase,
                                   .when = when,
                                   .stream = stream});
    return graph_.op(id).outputs[0];
  }
  Simulation run(const std::vector<double>& durations, int64_t micro_batches = 1) const {
    return simulate(graph_, make_schedule(graph_), durations, micro_batches);
  }
  double exposed(const Simulation& simulation, const char* name) const {
    for (std::size_t i = 0; i < graph_.ops().size(); ++i)
      if (graph_.ops()[i].name == name) return simulation.exposed_seconds[i];
    ADD_FAILURE() << "no op is called " << name;
    return -1;
  }

  OpRegistry registry_;
  Graph graph_;
  ValueId made_, used_;
};

TEST(Simulator, OverlapHidesTheCopies) {
  const Copies copies;
  const Simulation s = copies.run({1, 2, 1, kCompute, 1});
  EXPECT_DOUBLE_EQ(s.step_seconds, 5);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 0);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kCompute)], 5);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kDeviceToHost)], 2);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kHostToDevice)], 1);
}

TEST(Simulator, ASlowLinkExposesTheDifference) {
  const Copies copies;
  const Simulation s = copies.run({1, 2.75, 1, kCompute, 1});
  EXPECT_DOUBLE_EQ(copies.exposed(s, "use"), 0.75);
  EXPECT_DOUBLE_EQ(copies.exposed(s, "work"), 0);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 0.75);
  EXPECT_DOUBLE_EQ(s.step_seconds, 5.75);
}

TEST(Simulator, WhatOutlastsTheComputeStreamIsItsTail) {
  Copies copies;
  copies.add("late", "copy_to_host", {copies.used_}, StreamId::kDeviceToHost);
  const Simulation s = copies.run({1, 2, 1, kCompute, 1, 4});
  EXPECT_DOUBLE_EQ(s.step_seconds, 9);
  EXPECT_DOUBLE_EQ(s.tail_seconds, 4);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 4);
}

TEST(Simulator, MicroBatchesRepeatAndTheOptimizerDoesNot) {
  Copies copies;
  copies.add("reduce", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kBackward,
             RunWhen::kLastMicroBatch);
  copies.add("update", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kOptimizer);
  const std::vector<double> durations = {1, 2.75, 1, kCompute, 1, 0.5, 7};
  EXPECT_DOUBLE_EQ(copies.run(durations, 1).step_seconds, 5.75 + 0.5 + 7);
  const Simulation four = copies.run(durations, 4);
  EXPECT_DOUBLE_EQ(four.step_seconds, 4 * 5.75 + 0.5 + 7);
  EXPECT_DOUBLE_EQ(four.total_exposed_seconds(), 4 * 0.75);
  EXPECT_DOUBLE_EQ(four.busy_seconds[0] + four.total_exposed_seconds(), four.step_seconds);
}

// Without a core of its own a copy takes turns with a thread of the kernel, and both take twice as long for
// as long as they are at it together; what sleeps in the disk does not.
TEST(Simulator, CopiesWithoutACoreDelayWhatComputes) {
  const Copies copies;
  const auto run = [&](double computing, double spare) {
    return simulate(copies.graph_, make_schedule(copies.graph_), {1, 1, 0.5, kCompute, 1}, 1, nullptr,
                    Cores{computing, spare});
  };
  EXPECT_DOUBLE_EQ(run(2, 1).step_seconds, 5);
  // The copies' 1.5 s of work take 3 s, in which `work` gets 1.5 s done; its other half follows.
  const Simulation crowded = run(2, 0);
  EXPECT_DOUBLE_EQ(crowded.step_seconds, 5 + 1.5);
  EXPECT_DOUBLE_EQ(crowded.total_exposed_seconds(), 0);
  EXPECT_DOUBLE_EQ(crowded.busy_seconds[static_cast<int>(StreamId::kCompute)], 6.5);
  EXPECT_DOUBLE_EQ(crowded.busy_seconds[static_cast<int>(StreamId::kDeviceToHost)], 2);
  EXPECT_DOUBLE_EQ(run(8, 0).step_seconds, 6.5)
      << "a kernel is as late as its last thread, whatever their number";
}

TEST(Simulator, TheDiskSleepsWhileOthersCompute) {
  Copies copies;
  copies.add("write", "write_to_disk", {copies.made_}, StreamId::kDisk);
  copies.add("more", "add", {copies.used_, copies.used_});
  const Simulation s = simulate(copies.graph_, make_schedule(copies.graph_), {1, 0, 0, kCompute, 1, 5, 1}, 1,
                                nullptr, Cores{1, 0});
  EXPECT_DOUBLE_EQ(s.step_seconds, 6);
}

// The same step as times of every op: what the sums are sums of.
TEST(Simulator, ItsTimelineIsWhatItsSumsSay) {
  Copies copies;
  copies.add("reduce", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kBackward,
             RunWhen::kLastMicroBatch);
  copies.add("update", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kOptimizer);
  const std::vector<double> durations = {1, 2.75, 1, kCompute, 1, 0.5, 7};
  StepTimeline timeline;
  const Simulation s = simulate(copies.graph_, make_schedule(copies.graph_), durations, 4, &timeline);
  ASSERT_EQ(timeline.runs.size(), 3u);
  EXPECT_EQ(timeline.end, std::llround(1e9 * s.step_seconds));
  double exposed = 0;
  for (const StepTimeline::Run& run : timeline.runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      const OpTime& time = run.ops[i];
      if (!time.ran()) continue;
      const std::size_t op = run.first + i;
      EXPECT_EQ(time.end - time.begin, std::llround(1e9 * durations[op])) << copies.graph_.ops()[op].name;
      if (copies.graph_.ops()[op].stream == StreamId::kCompute)
        exposed += 1e-9 * static_cast<double>(time.waited * timeline.stands_for(run));
    }
  EXPECT_DOUBLE_EQ(exposed, s.total_exposed_seconds());
  // Of the last micro-batch, by hand: it begins when three of 5.75 s are over.
  const StepTimeline::Run& last = timeline.runs[1];
  const auto seconds = [](int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); };
  EXPECT_DOUBLE_EQ(seconds(last.begin), 3 * 5.75);
  EXPECT_DOUBLE_EQ(seconds(last.ops[4].begin), 4 * 5.75 - 1);
  EXPECT_DOUBLE_EQ(seconds(last.ops[4].waited), 0.75);
  EXPECT_FALSE(timeline.runs[0].ops[5].ran());
  EXPECT_DOUBLE_EQ(seconds(last.ops[5].end), 4 * 5.75 + 0.5);
  EXPECT_DOUBLE_EQ(seconds(timeline.runs[2].ops[0].begin), 4 * 5.75 + 0.5);
}

TEST(Simulator, AnOpTakesTheLongerOfArithmeticMemoryAndLink) {
  OpRegistry registry;
  register_engine_ops(registry);
  register_checkpointing_ops(registry);
  Graph graph;
  const auto input = [&](Shape shape, DType dtype) {
    return graph.add_value(
        {.name = "x", .shape = shape, .dtype = dtype, .category = Category::kInput, .persistent = true});
  };
  ValueId made = kNone;  // what the last op made
  const auto seconds = [&](const char* kind, std::vector<ValueId> inputs, const DeviceModel& device,
                           StreamId stream = StreamId::kCompute, Attributes attributes = {}) {
    const OpId id = graph.add_op({.def = registry.find(kind),
                                  .name = kind,
                                  .attributes = std::move(attributes),
                                  .inputs = std::move(inputs),
                                  .stream = stream});
    made = graph.op(id).outputs[0];
    return op_seconds(graph, graph.op(id), device);
  };
  DeviceModel device{.name = "by hand",
                     .gemm_f32 = 1e6,
                     .gemm_bf16 = 4e6,
                     .gemm_f64 = 1e5,
                     .vector_flops = 1e3,
                     .memory_bandwidth = 1e9,
                     .link_bandwidth = 1e3,
                     .to_host_bandwidth = 100,
                     .to_device_bandwidth = 50,
                     .disk_write_bandwidth = 20,
                     .disk_read_bandwidth = 40,
                     .launch_overhead = 1};
  const ValueId a = input({10, 20}, DType::kF32), w = input({30, 20}, DType::kF32);
  EXPECT_DOUBLE_EQ(seconds("linear", {a, w}, device), 1 + 2.0 * 10 * 20 * 30 / 1e6);
  const ValueId a16 = input({10, 20}, DType::kBF16), w16 = input({30, 20}, DType::kBF16);
  EXPECT_DOUBLE_EQ(seconds("linear", {a16, w16}, device), 1 + 2.0 * 10 * 20 * 30 / 4e6);
  EXPECT_DOUBLE_EQ(seconds("add", {a, a}, device), 1 + 200 / 1e3);
  EXPECT_DOUBLE_EQ(seconds("copy_to_host", {a}, device, StreamId::kDeviceToHost), 1 + 800 / 100.0);
  EXPECT_DOUBLE_EQ(seconds("copy_to_device", {a}, device, StreamId::kHostToDevice), 1 + 800 / 50.0);
  EXPECT_DOUBLE_EQ(seconds("write_to_disk", {a}, device, StreamId::kDisk), 1 + 800 / 20.0);
  EXPECT_DOUBLE_EQ(
      seconds("read_from_disk", {made}, device, StreamId::kDisk, {{"to", std::string("device")}}),
      1 + 800 / 40.0);
  device.memory_bandwidth = 10;
  EXPECT_DOUBLE_EQ(seconds("add", {a, a}, device), 1 + 3 * 800 / 10.0);
}

TEST(Simulator, AttentionHasARateOfItsOwn) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const ValueId qkv = graph.add_value({.name = "qkv",
                                       .shape = {6, 3 * 2 * 4},
                                       .dtype = DType::kBF16,
                                       .category = Category::kInput,
                                       .persistent = true});
  const OpId id = graph.add_op(
      {.def = registry.find("attention"),
       .name = "attention",
       .attributes = {{"heads", int64_t{2}}, {"head_size", int64_t{4}}, {"sequence_length", int64_t{3}}},
       .inputs = {qkv}});
  const DeviceModel device{
      .name = "by hand", .gemm_bf16 = 1, .attention_f32 = 2, .attention_bf16 = 100, .memory_bandwidth = 1e12};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), 2.0 * 2 * 8 * 3 * 4 / 100);
}

// What was measured of a kernel counts, at its amount of work; other kinds go by the device's numbers.
TEST(OpTime, GoesByTheKernelThatWasMeasured) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const auto input = [&](Shape shape, DType dtype = DType::kF32) {
    return graph.add_value(
        {.name = "x", .shape = shape, .dtype = dtype, .category = Category::kInput, .persistent = true});
  };
  const auto add_op = [&](const char* kind, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return graph.add_op({.def = registry.find(kind),
                         .name = kind,
                         .attributes = std::move(attributes),
                         .inputs = std::move(inputs)});
  };
  const ValueId a = input({10, 20}), w = input({30, 20});
  const OpId product = add_op("linear", {a, w}), sum = add_op("add", {a, a});
  const Attributes half{{"p", 0.5},
                        {"layer", int64_t{0}},
                        {"site", int64_t{0}},
                        {"sequence_length", int64_t{10}},
                        {"first_token", int64_t{0}}};
  const OpId dropout = add_op("dropout", {a}, half);
  EXPECT_EQ(kernel_use({graph, graph.op(product)}).key, "linear f32");
  EXPECT_EQ(kernel_use({graph, graph.op(product)}).work, 12000);
  EXPECT_EQ(kernel_use({graph, graph.op(sum)}).work, 3 * 800);
  EXPECT_EQ(kernel_use({graph, graph.op(dropout)}).key, "dropout f32 dropout");
  DeviceModel device{.name = "by hand", .gemm_f32 = 1, .vector_flops = 100, .memory_bandwidth = 1e9};
  device.kernels["linear f32"] = {{120, 10}, {12000, 1000}};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(product), device), 12);
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(sum), device), 2);
  device.kernels["dropout f32"] = {{1, 800}};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(dropout), device), 2) << "nearer than no measurement";
  device.kernels["dropout f32 dropout"] = {{1, 400}};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(dropout), device), 4);
}

// x and its sum are 800 bytes each, and 2400 bytes are touched in all before the same op comes again.
TEST(OpTime, MemoryIsAsFastAsTheCacheThatHoldsTheOperands) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const ValueId x =
      graph.add_value({.name = "x", .shape = {200}, .category = Category::kInput, .persistent = true});
  graph.add_op({.def = registry.find("add"), .name = "sum", .inputs = {x, x}});
  DeviceModel device{.name = "by hand"};
  EXPECT_EQ(memory_seconds(graph, device), std::vector<double>{0});
  device.memory_levels = {{1e6, 800}};
  EXPECT_DOUBLE_EQ(memory_seconds(graph, device)[0], 3);
  device.memory_levels = {{800, 800}, {1600, 400}};  // the second read finds x where the first one left it
  EXPECT_DOUBLE_EQ(memory_seconds(graph, device)[0], 2 + 1 + 2);
}

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
}  // namespace recollect
