// What ops took, beside what was predicted, by hand.
#include <gtest/gtest.h>

#include "checkpointing/measured_times.h"
#include "checkpointing/op_time.h"
#include "engine/ops/ops.h"

namespace recollect::test::measured_times_test {
namespace {

TEST(MeasuredTimes, AreMultiplesByKind) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const ValueId x = graph.add_value(
                    {.name = "x", .shape = {10, 20}, .category = Category::kInput, .persistent = true}),
                w = graph.add_value(
                    {.name = "w", .shape = {30, 20}, .category = Category::kInput, .persistent = true});
  const auto add = [&](const char* kind, std::vector<ValueId> inputs) {
    return graph.op(graph.add_op({.def = registry.find(kind), .name = kind, .inputs = std::move(inputs)}))
        .outputs[0];
  };
  const ValueId sum = add("add", {x, x});
  add("add", {sum, sum});
  add("linear", {x, w});
  const auto step_of = [&](std::vector<OpTime> ops) {
    StepTimeline step = StepTimeline::blank(graph, 1);
    step.runs[0].begin = 100;
    step.runs[0].ops = std::move(ops);
    return step;
  };
  const StepTimeline predicted =
      step_of({{.begin = 100, .end = 110}, {.begin = 110, .end = 120}, {.begin = 120, .end = 220}});
  // The adds take 20 and 30, each with 5 before it. The product waited for 7 of the 17 before it, and stood for 10.
  const StepTimeline measured = step_of({{.begin = 105, .end = 125},
                                         {.begin = 130, .end = 160},
                                         {.begin = 177, .end = 377, .waited = 7, .stood = 10}});
  DeviceModel device{.name = "by hand",
                     .gemm_f32 = 1e6,
                     .vector_flops = 1e3,
                     .memory_bandwidth = 1e9,
                     .launch_overhead = 4e-9};
  const MeasuredTimes times = measured_times(graph, device, predicted, measured);
  EXPECT_EQ(times.launch_overhead, 4e-9);
  EXPECT_EQ(times.multiples.size(), 2u);
  EXPECT_DOUBLE_EQ(times.multiples.at("add f32"), (5 + 20 + 5 + 30 - 2 * 4) / (20.0 - 2 * 4));
  EXPECT_DOUBLE_EQ(times.multiples.at("linear f32"), (10 + 200 - 10 - 4) / (100.0 - 4));

  const double product = op_seconds(graph, graph.op(2), device) - 4e-9;
  const DeviceModel adapted = with_measured_times(device, times);
  EXPECT_NEAR(op_seconds(graph, graph.op(2), adapted), 4e-9 + 196 / 96.0 * product, 1e-12 * product);
  EXPECT_DOUBLE_EQ(op_durations(graph, adapted)[2], op_seconds(graph, graph.op(2), adapted));

  device.launch_overhead = 5e-8;  // more than the adds take
  EXPECT_NEAR(measured_times(graph, device, predicted, measured).launch_overhead, 30e-9, 1e-15);
}

}  // namespace
}  // namespace recollect::test::measured_times_test
