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
