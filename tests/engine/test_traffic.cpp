// The cuda backend's kernels pass over memory as often as their ops' definitions say, and no more: bytes are counted while
// kernels run on the CPU (tests/gpu/emulation/traffic.h), on values as wide as a small model's.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"
#include "tests/gpu/emulation/traffic.h"

namespace recollect::test {
namespace {

constexpr int64_t kTokens = 512, kWidth = 768, kInner = 1024;
constexpr std::size_t kSmall = 16 << 10;  // a number for each column or each row

struct PassCase {
  OpCase op;
  int launches = 1;
  // Sums over rows are made of sums over parts of them, which are written first: of all bytes so much, at most.
  double partial_sums = 0;
  int in_place = 0;  // outputs, from the first on, that are read too
};

Attributes dropout(double p) {
  return {{"p", p},
          {"layer", int64_t{0}},
          {"site", int64_t{0}},
          {"sequence_length", kTokens},
          {"first_token", int64_t{0}}};
}

std::vector<PassCase> pass_cases() {
  const Shape shape{kTokens, kWidth}, inner{kTokens, kInner}, both{kTokens, 2 * kInner}, columns{kWidth},
      rows{kTokens};
  const ValueSpec x = activation("x", shape), dy = activation("dy", shape), add = activation("add", shape);
  const ValueSpec weight = statistic("weight", columns), bias = statistic("bias", columns);
  const ValueSpec mean = statistic("mean", rows), rstd = statistic("rstd", rows);
  const Attributes gelu{{"form", std::string("tanh")}};
  std::vector<PassCase> cases;
  const auto one = [&](const char* name, const char* kind, std::vector<ValueSpec> inputs,
                       Attributes attributes = {}) {
    cases.push_back(
        {.op = {
             .name = name, .kind = kind, .inputs = std::move(inputs), .attributes = std::move(attributes)}});
  };
  const auto summing = [&](const char* name, const char* kind, std::vector<ValueSpec> inputs,
                           Attributes attributes, std::map<int, ValueSpec> sums, int launches,
                           double partial_sums) {
    cases.push_back({.op = {.name = name,
                            .kind = kind,
                            .inputs = std::move(inputs),
                            .attributes = std::move(attributes),
                            .accumulators = std::move(sums)},
                     .launches = launches,
                     .partial_sums = partial_sums});
  };
  one("add", "add", {x, add});
  one("add_scaled_columns", "add_scaled_columns", {activation("x", both), activation("part", inner)},
      {{"first_column", kInner}, {"scale", 0.5}});
  one("dropout", "dropout", {x}, dropout(0.1));
  one("bias_dropout_add", "bias_dropout_add", {x, bias, add}, dropout(0.1));
  one("bias_dropout_add_without", "bias_dropout_add", {x, bias, add}, dropout(0));
  one("bias_gelu", "bias_gelu", {x, bias}, gelu);
  one("swiglu", "swiglu", {activation("x", both)});
  one("swiglu_backward", "swiglu_backward", {activation("dy", inner), activation("x", both)});
  one("geglu", "geglu", {activation("x", both)});
  one("geglu_backward", "geglu_backward", {activation("dy", inner), activation("x", both)});
  one("gelu", "gelu", {x}, gelu);
  one("gelu_backward", "gelu_backward", {dy, x});
  one("relu", "relu", {x});
  one("tanh", "tanh", {x});
  one("layer_norm", "layer_norm", {x, weight, bias}, {{"epsilon", 1e-5}});
  one("residual_norm", "residual_norm", {x, bias, add, weight, statistic("shift", columns)},
      {{"epsilon", 1e-5}});
  one("rms_norm", "rms_norm", {x, weight}, {{"epsilon", 1e-5}});
  const Attributes heads{{"heads", int64_t{8}}, {"second_heads", int64_t{4}}, {"epsilon", 1e-5}};
  const ValueSpec head = statistic("head", {64});
  one("head_norm", "head_norm", {x, head, head}, heads);
  const ValueSpec dbias = statistic("dbias", columns), dweight = statistic("dweight", columns);
  summing("column_sum", "column_sum", {dy}, {}, {{0, dbias}}, 2, 0.063);
  summing("bias_gelu_backward", "bias_gelu_backward", {dy, x, bias}, gelu, {{1, dbias}}, 2, 0.021);
  summing("bias_dropout_add_backward", "bias_dropout_add_backward", {dy}, dropout(0.1), {{1, dbias}}, 2,
          0.032);
  summing("layer_norm_backward", "layer_norm_backward", {dy, x, weight, mean, rstd}, {{"epsilon", 1e-5}},
          {{1, dweight}, {2, dbias}}, 2, 0.068);
  summing("head_norm_backward", "head_norm_backward", {dy, x, head, head}, heads,
          {{1, statistic("dhead", {64})}, {2, statistic("dsecond", {64})}}, 3, 0.02);
  cases.push_back(
      {.op = {.name = "squared_norm", .kind = "squared_norm", .inputs = {statistic("grad", shape)}},
       .launches = 2,
       .partial_sums = 0.01});
  // The optimizer's states lie where they were: each is read and written.
  const ValueSpec number{.name = "number", .shape = {3}, .storage = Storage::kF64, .scale = 0, .offset = 0.5};
  ValueSpec factor = number;
  factor.shape = {1};
  const ValueSpec param{.name = "param", .shape = shape, .fill = Fill::kGarbage};
  cases.push_back({.op = {.name = "adamw",
                          .kind = "adamw",
                          .inputs = {number, factor, statistic("grad", shape)},
                          .attributes = {{"weight_decay", 0.1},
                                         {"cast", int64_t{1}},
                                         {"beta1", 0.9},
                                         {"beta2", 0.95},
                                         {"epsilon", 1e-8}},
                          .accumulators = {{0, statistic("master", shape)},
                                           {1, statistic("m", shape)},
                                           {2, statistic("v", shape)},
                                           {3, param}}},
                   .in_place = 3});
  PassCase eight_bits = cases.back();
  eight_bits.op.name = eight_bits.op.kind = "adamw8bit";
  const auto entries = [&](const char* name) {
    return ValueSpec{.name = name, .shape = shape, .storage = Storage::kU8, .fill = Fill::kIds, .limit = 256};
  };
  const auto sizes = [](const char* name) { return statistic(name, {kTokens, kWidth / 256}); };
  eight_bits.op.accumulators = {{0, statistic("master", shape)}, {1, entries("m")},
                                {2, sizes("m_sizes")},           {3, entries("v")},
                                {4, sizes("v_sizes")},           {5, param}};
  eight_bits.in_place = 5;
  cases.push_back(eight_bits);
  return cases;
}

// An op on the cuda backend as the emulation has it.
struct Emulated {
  explicit Emulated(const OpCase& c) {
    register_engine_ops(registry);
    emulation::register_kernels(kernels);
    graph = make_graph(c, registry, kBfloat16);
    runner.emplace(graph, kernels, c.state);
  }

  OpRegistry registry;
  KernelTable kernels;
  Graph graph;
  std::optional<GraphRunner> runner;
};

class Passes : public ::testing::TestWithParam<PassCase> {};

TEST_P(Passes, MoveEachValueOnce) {
  const OpCase& c = GetParam().op;
  Emulated emulated(c);
  const Graph& graph = emulated.graph;
  GraphRunner& runner = *emulated.runner;
  const Op& op = graph.op(0);
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    write(runner.tensor(op.inputs[i]), random_numbers(c.inputs[i], i));

  emulation::Traffic traffic;
  std::vector<ValueId> values = op.inputs;
  values.insert(values.end(), op.outputs.begin(), op.outputs.end());
  for (const ValueId id : values) traffic.watch(runner.data(id), graph.value(id).bytes(), kSmall);
  runner.run_op(0, false);

  double moved = 0, least = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool twice = i >= op.inputs.size() && i < op.inputs.size() + GetParam().in_place;
    const double bytes = (twice ? 2.0 : 1.0) * static_cast<double>(graph.value(values[i]).bytes());
    const auto touched = static_cast<double>(traffic.read(i) + traffic.written(i));
    moved += touched;
    least += bytes;
    if (bytes <= kSmall) continue;  // some of these are read one by one
    EXPECT_GE(touched, bytes) << graph.value(values[i]).name << ": the count has missed something";
    EXPECT_LE(touched, 1.02 * bytes) << graph.value(values[i]).name;
  }
  const double defined = op.def->cost(OpView{graph, op}).bytes;
  if (GetParam().in_place) {
    EXPECT_GE(defined, 0.5 * least) << "what the definition says";
  } else {
    EXPECT_EQ(defined, least) << "what the definition says";
  }
  EXPECT_LE(moved, 1.02 * least);
  EXPECT_LE(static_cast<double>(traffic.elsewhere()), GetParam().partial_sums * least);
  EXPECT_EQ(traffic.launches(), GetParam().launches);
}

// What the count would see: a second pass over the same values, whether one kernel makes it or two.
TEST(Traffic, CountsEveryPass) {
  const OpCase c{.name = "add",
                 .kind = "add",
                 .inputs = {activation("x", {kTokens, 64}), activation("y", {kTokens, 64})}};
  Emulated emulated(c);
  const Graph& graph = emulated.graph;
  GraphRunner& runner = *emulated.runner;
  const ValueId x = graph.op(0).inputs[0], sum = graph.op(0).outputs[0];
  const auto bytes = static_cast<int64_t>(graph.value(x).bytes());
  emulation::Traffic traffic;
  traffic.watch(runner.data(x), graph.value(x).bytes(), 0);
  traffic.watch(runner.data(sum), graph.value(sum).bytes(), 0);
  for (int passes = 1; passes <= 2; ++passes) {
    runner.run_op(0, false);
    EXPECT_EQ(traffic.launches(), passes);
    EXPECT_EQ(traffic.read(0), passes * bytes);
    EXPECT_EQ(traffic.written(0), 0);
    EXPECT_EQ(traffic.written(1), passes * bytes);
    EXPECT_EQ(traffic.elsewhere(), passes * bytes) << "the other summand";
  }
  std::vector<std::byte> mine(64);
  traffic.watch(mine.data(), mine.size(), 0);
  const int64_t before = traffic.elsewhere();
  for (int twice = 0; twice < 2; ++twice) traffic.touch(mine.data(), 32, false);
  EXPECT_EQ(traffic.read(2), 32) << "a block has in its cache what it has touched";
  traffic.begin_launch();
  traffic.touch(mine.data() + 8, 16, true);
  EXPECT_EQ(traffic.written(2), 32) << "in units of 16";
  EXPECT_EQ(traffic.elsewhere(), before);
}

// The largest number of what is quantised is found when that is made.
void expect_one_reading(const char* kind, std::vector<ValueSpec> inputs, std::size_t quantised = 0) {
  const OpCase c{.name = kind,
                 .kind = kind,
                 .inputs = std::move(inputs),
                 .attributes = {{"form", std::string("tanh")},
                                {"epsilon", 1e-5},
                                {"format", std::string("e4m3")},
                                {"copies", std::string("both")}}};
  Emulated emulated(c);
  const Graph& graph = emulated.graph;
  GraphRunner& runner = *emulated.runner;
  const Op& op = graph.op(0);
  const ValueId y = op.outputs[quantised];
  const uint64_t bytes = graph.value(y).bytes();
  emulation::Traffic traffic;
  traffic.watch(runner.data(y), bytes, 0);
  runner.run_op(0, false);
  EXPECT_EQ(traffic.written(0), static_cast<int64_t>(bytes)) << kind;
  EXPECT_EQ(traffic.read(0), static_cast<int64_t>(bytes)) << kind;
  EXPECT_EQ(traffic.launches(), 3) << kind << ", the scale, the codes";
  uint64_t defined = bytes;
  for (const auto& values : {op.inputs, op.outputs})
    for (const ValueId v : values) defined += graph.value(v).bytes();
  EXPECT_EQ(op.def->cost(OpView{graph, op}).bytes, static_cast<double>(defined)) << kind;
}

TEST(Traffic, OfWhatMakesItsCodesIsOneReadingForThem) {
  const ValueSpec x = activation("x", {kTokens, 64}), weight = statistic("weight", {64}),
                  bias = statistic("bias", {64});
  expect_one_reading("bias_gelu_quantise", {x, bias});
  expect_one_reading("layer_norm_quantise", {x, weight, bias});
  expect_one_reading("residual_norm_quantise",
                     {x, bias, activation("residual", {kTokens, 64}), weight, statistic("shift", {64})}, 1);
  expect_one_reading("rms_norm_quantise", {x, weight});
}

INSTANTIATE_TEST_SUITE_P(Ops, Passes, ::testing::ValuesIn(pass_cases()),
                         [](const auto& info) { return info.param.op.name; });

}  // namespace
}  // namespace recollect::test
