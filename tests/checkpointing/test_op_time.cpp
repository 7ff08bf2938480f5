// How long an op takes alone, by hand.
#include <gtest/gtest.h>

#include "checkpointing/op_time.h"
#include "checkpointing/residency_ops.h"
#include "engine/ops/attention.h"
#include "engine/ops/ops.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::op_time_test {
namespace {

TEST(OpTime, AnOpTakesTheLongerOfArithmeticMemoryAndLink) {
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

TEST(OpTime, WhatTheHostDoesGoesByItsMemory) {
  const OpDef def{.name = "of_host",
                  .infer = [](const OpView&) { return std::vector<OutputSpec>{}; },
                  .cost = [](const OpView&) { return Cost{.bytes = 600}; },
                  .unit = Unit::kHost};
  Graph graph;
  const OpId id = graph.add_op({.def = &def, .name = "of_host", .stream = StreamId::kHost});
  DeviceModel device{
      .name = "by hand", .vector_flops = 1, .memory_bandwidth = 200, .host_memory_bandwidth = 100};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), 6);
  device.host_memory_bandwidth = 0;  // there is one memory
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), 3);
}

TEST(OpTime, AttentionHasARateOfItsOwn) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const ValueId qkv = graph.add_value({.name = "qkv",
                                       .shape = {6, 3 * 2 * 4},
                                       .dtype = DType::kBF16,
                                       .category = Category::kInput,
                                       .persistent = true});
  const OpId id = graph.add_op({.def = registry.find("attention"),
                                .name = "attention",
                                .attributes = {{"heads", int64_t{2}},
                                               {"kv_heads", int64_t{2}},
                                               {"kv_group", int64_t{1}},
                                               {"causal", int64_t{1}},
                                               {"head_size", int64_t{4}},
                                               {"sequence_length", int64_t{3}},
                                               {"first_head", int64_t{0}},
                                               {"all_heads", int64_t{2}}},
                                .inputs = {qkv}});
  DeviceModel device{
      .name = "by hand", .gemm_bf16 = 1, .attention_f32 = 2, .attention_bf16 = 100, .memory_bandwidth = 1e12};
  const double flops = 2.0 * 2 * 8 * 3 * 4;
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), flops / 100);
  // cuDNN takes no capped scores; our own kernel uses no tensor cores. On CPUs one kernel does both.
  graph.op(id).attributes.set(kScoreCap, 30.0);
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), flops / 100);
  device.host_memory_bandwidth = 1;
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), flops / 2);
  device.kernels = {{"attention bf16", {{1, 50}}}, {"attention f32", {{1, 4}}}};
  EXPECT_DOUBLE_EQ(op_seconds(graph, graph.op(id), device), flops / 4);
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

// Half the bits, twice the rate or more: of every op that multiplies, by the device's numbers and by what was
// measured of its kernel in bf16.
TEST(OpTime, HalfPrecisionHasOneRateInBothFormats) {
  constexpr int64_t kSamples = 2, kLength = 4, kHeads = 2, kSize = 8, kTokens = kSamples * kLength,
                    kWidth = kHeads * kSize;
  DeviceModel device{.name = "by hand",
                     .gemm_f32 = 1e6,
                     .gemm_bf16 = 8e6,
                     .attention_f32 = 1e5,
                     .attention_bf16 = 4e5,
                     .vector_flops = 1e9,
                     .memory_bandwidth = 1e12};
  const auto seconds = [&](DType dtype) {
    SmallGraph g;
    const ValueId x = g.input("x", {kTokens, kWidth}, dtype), w = g.input("w", {kWidth, kWidth}, dtype),
                  dy = g.input("dy", {kTokens, kWidth}, dtype),
                  qkv = g.input("qkv", {kTokens, 3 * kWidth}, dtype),
                  targets = g.input("targets", {kSamples, kLength}, DType::kI32),
                  scale = g.input("scale", {1}, DType::kF64);
    const Attributes heads{{"heads", kHeads},          {"kv_heads", kHeads}, {"kv_group", int64_t{1}},
                           {"causal", int64_t{1}},     {"head_size", kSize}, {"sequence_length", kLength},
                           {"first_head", int64_t{0}}, {"all_heads", kHeads}};
    g.op("linear", "linear", {x, w});
    g.op("input", "linear_backward_input", {dy, w});
    g.op("weight", "linear_backward_weight", {x, dy}, {{"bias", int64_t{0}}});
    g.op("head", "lm_head_loss", {x, w, targets, scale},
         {{"vocabulary_size", kWidth},
          {"first_row", int64_t{0}},
          {"chunk_rows", kTokens},
          {"gradient", int64_t{1}}});
    const ValueId o = g.op("attention", "attention", {qkv}, heads);
    g.op("attention_backward", "attention_backward", {dy, qkv, o, g.graph.find("attention/lse")}, heads);
    std::vector<double> times;
    for (const Op& op : g.graph.ops()) times.push_back(op_seconds(g.graph, op, device));
    return times;
  };
  const std::vector<double> f32 = seconds(DType::kF32), bf16 = seconds(DType::kBF16);
  EXPECT_EQ(seconds(DType::kF16), bf16);
  for (std::size_t i = 0; i < f32.size(); ++i) EXPECT_DOUBLE_EQ(f32[i] / bf16[i], i < 4 ? 8 : 4) << i;
  for (const char* kernel : {"linear", "linear_backward_input", "linear_backward_weight", "lm_head_loss",
                             "attention", "attention_backward"})
    device.kernels[std::string(kernel) + " bf16"] = {{1, 3e6}};
  const std::vector<double> measured = seconds(DType::kBF16);
  EXPECT_NE(measured, bf16);
  EXPECT_EQ(seconds(DType::kF16), measured);
}

// What a kernel was measured to take for one head of one sample holds for any number of them.
TEST(OpTime, AttentionGoesByTheWorkOfOneHead) {
  SmallGraph g;
  const Attributes heads{{"heads", int64_t{2}},      {"kv_heads", int64_t{2}},
                         {"kv_group", int64_t{1}},   {"causal", int64_t{1}},
                         {"head_size", int64_t{4}},  {"sequence_length", int64_t{3}},
                         {"first_head", int64_t{0}}, {"all_heads", int64_t{2}}};
  g.op("one", "attention", {g.input("qkv", {3, 24})}, heads);
  g.op("five", "attention", {g.input("qkv", {15, 24})}, heads);
  const auto use = [&](OpId id) { return kernel_use({g.graph, g.graph.op(id)}); };
  EXPECT_EQ(use(0).amount, use(0).work / 2);
  EXPECT_EQ(use(1).amount, use(0).amount);
  EXPECT_EQ(use(1).work, 5 * use(0).work);
}

// All forms of Adam make one pass over the same memory, and calibration runs one of them.
TEST(OpTime, AFormOfAdamGoesByAdamW) {
  SmallGraph g;
  const ValueId gradient = g.input("gradient", {1000}), schedule = g.input("schedule", {3}, DType::kF64),
                factor = g.input("factor", {1}, DType::kF64);
  DeviceModel device{.name = "by hand", .vector_flops = 1, .memory_bandwidth = 1};
  device.kernels["adamw f32"] = {{1, 1e3}};
  for (const char* kind : {"adamw", "adamw_hf", "adam"}) {
    g.op(kind, kind, {schedule, factor, gradient},
         {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.0}, {"cast", int64_t{0}}});
    const KernelUse use = kernel_use({g.graph, g.graph.ops().back()});
    EXPECT_EQ(use.key, std::string(kind) + " f32");
    EXPECT_DOUBLE_EQ(op_seconds(g.graph, g.graph.ops().back(), device), use.work / 1e3) << kind;
  }
  g.op("sgd", "sgd", {schedule, factor, gradient},
       {{"momentum", 0.9}, {"weight_decay", 0.0}, {"cast", int64_t{0}}});
  EXPECT_GT(op_seconds(g.graph, g.graph.ops().back(), device), 1e3);
}

// In a file that was written before there were such ops, what streams is as fast as its nearest; what is nobody's
// like goes by the device's numbers. Which they are is said where they matter.
TEST(OpTime, WithoutRatesOfItsOwnAKindGoesByItsNearest) {
  SmallGraph g;
  const ValueId x = g.input("x", {8, 6}), weight = g.input("weight", {6}),
                ids = g.input("ids", {2, 4}, DType::kI32), table = g.input("table", {2, 6}),
                angles = g.input("angles", {4, 2});
  DeviceModel device{.name = "by hand", .vector_flops = 1e9, .memory_bandwidth = 20};
  const auto rate = [&](const char* kind, std::vector<ValueId> inputs, Attributes attributes = {}) {
    g.op(kind, kind, std::move(inputs), std::move(attributes));
    const Op& op = g.graph.ops().back();
    return kernel_use({g.graph, op}).work / op_seconds(g.graph, op, device);
  };
  device.kernels = {
      {"layer_norm f32", {{1, 40}}}, {"bias_gelu f32", {{1, 50}}}, {"add_position f32", {{1, 60}}}};
  EXPECT_DOUBLE_EQ(rate("rms_norm", {x, weight}, {{"epsilon", 1e-5}}), 40);
  EXPECT_DOUBLE_EQ(rate("swiglu", {x}), 50);
  EXPECT_DOUBLE_EQ(rate("tanh", {x}), 50);
  EXPECT_DOUBLE_EQ(rate("add_embedding", {x, ids, table}, {{"first_token", int64_t{0}}}), 60);
  EXPECT_DOUBLE_EQ(rate("rotary", {x, angles},
                        {{"sequence_length", int64_t{4}},
                         {"head_size", int64_t{2}},
                         {"rotated_heads", int64_t{2}},
                         {"inverse", int64_t{0}}}),
                   20);
  using Kinds = std::vector<std::string>;
  EXPECT_EQ(kinds_without_rates(g.graph, device),
            (Kinds{"add_embedding", "rms_norm", "rotary", "swiglu", "tanh"}));
  for (const char* kind : {"rms_norm", "swiglu", "tanh", "add_embedding"})
    device.kernels[std::string(kind) + " f32"] = {{1, 10}};
  EXPECT_DOUBLE_EQ(rate("rms_norm", {x, weight}, {{"epsilon", 1e-5}}), 10);
  EXPECT_EQ(kinds_without_rates(g.graph, device), Kinds{"rotary"});
  device.kernels["rotary f32"] = {{1, 10}};
  EXPECT_EQ(kinds_without_rates(g.graph, device), Kinds{});
  device.kernels.erase("tanh f32");
  device.kernels["swiglu f32"] = {{1, 0.01}};
  EXPECT_EQ(kinds_without_rates(g.graph, device), Kinds{}) << "it takes no time that matters";
  EXPECT_EQ(kinds_without_rates(g.graph, {.name = "of no kernels"}), Kinds{});
}

// Of a vocabulary that is divided, the ranks exchange maxima and sums of every chunk of rows.
TEST(OpTime, ADividedVocabularyCostsTheLinksLatency) {
  SmallGraph g;
  const ValueId x = g.input("x", {8, 6}), w = g.input("w", {10, 6}),
                targets = g.input("targets", {2, 4}, DType::kI32), scale = g.input("scale", {1}, DType::kF64);
  g.op("head", "lm_head_loss", {x, w, targets, scale},
       {{"vocabulary_size", int64_t{10}},
        {"first_row", int64_t{0}},
        {"chunk_rows", int64_t{3}},
        {"gradient", int64_t{0}}});
  const DeviceModel device{
      .name = "by hand", .gemm_f32 = 1e6, .vector_flops = 1, .memory_bandwidth = 1e12, .link_latency = 10};
  const double whole = op_seconds(g.graph, g.graph.op(0), device);
  g.graph.value(w).placement = Placement::sharded_over(kTensorAxis);
  EXPECT_DOUBLE_EQ(op_seconds(g.graph, g.graph.op(0), device), whole + 2 * 3 * 10);
}

// Every kind says what it keeps busy: what multiplies is no vector op, and what takes a link says so.
TEST(OpTime, UnitsFollowWhatOpsDo) {
  const SmallGraph g;
  std::map<Unit, std::string> kinds;
  for (const OpDef* def : g.registry.all()) kinds[def->unit] += def->name + " ";
  EXPECT_EQ(kinds[Unit::kGemm],
            "linear linear_backward_input linear_backward_input_gelu linear_backward_weight linear_fp8 "
            "linear_fp8_backward_input linear_fp8_backward_weight linear_gelu linear_rows lm_head_loss "
            "lm_logits ");
  EXPECT_EQ(kinds[Unit::kAttention], "attention attention_backward cached_attention ");
  EXPECT_EQ(kinds[Unit::kCopy],
            "copy_to_device copy_to_host copy_to_ranks read_from_disk take_own_part write_to_disk ");
  EXPECT_EQ(kinds[Unit::kCollective],
            "all_gather all_gather_accumulators all_reduce all_reduce_accumulators broadcast_rows "
            "checkpoint_gather "
            "gather_from_ranks gather_parts reduce_scatter reduce_scatter_accumulators ");
}

}  // namespace
}  // namespace recollect::test::op_time_test
