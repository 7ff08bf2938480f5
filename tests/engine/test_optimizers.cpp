// Several steps of every optimizer against its formula as PyTorch and Transformers document it, written here
// again in double and in the textbook form (corrected moments), not in the kernels'.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/all_backends.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-3, kMomentum = 0.8, kFactor = 0.5;
constexpr int kSteps = 6;
constexpr int64_t kElements = 19;

double rate_at(int step) { return 0.02 / step; }

struct Weight {
  double value, m = 0, v = 0;
};

// `step` counts from 1; `gradient` is clipped already.
void textbook_step(const std::string& kind, int step, double rate, double weight_decay, double gradient,
                   Weight& w) {
  if (kind == "sgd") {
    gradient += weight_decay * w.value;
    w.m = step == 1 ? gradient : kMomentum * w.m + gradient;
    w.value -= rate * w.m;
    return;
  }
  if (kind == "lion") {
    w.value *= 1 - rate * weight_decay;
    const double direction = kBeta1 * w.m + (1 - kBeta1) * gradient;
    w.value -= direction == 0 ? 0 : std::copysign(rate, direction);
    w.m = kBeta2 * w.m + (1 - kBeta2) * gradient;
    return;
  }
  if (kind == "adam") gradient += weight_decay * w.value;
  if (kind == "adamw") w.value *= 1 - rate * weight_decay;
  w.m = kBeta1 * w.m + (1 - kBeta1) * gradient;
  w.v = kBeta2 * w.v + (1 - kBeta2) * gradient * gradient;
  const double correction1 = 1 - std::pow(kBeta1, step), correction2 = 1 - std::pow(kBeta2, step);
  if (kind == "adamw_hf") {
    const double step_size = rate * std::sqrt(correction2) / correction1;
    w.value += -step_size * (w.m / (std::sqrt(w.v) + kEpsilon));
    w.value += -rate * weight_decay * w.value;
  } else {
    const double m_hat = w.m / correction1, v_hat = w.v / correction2;
    w.value -= rate * m_hat / (std::sqrt(v_hat) + kEpsilon);
  }
}

struct Setting {
  std::string name, kind;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
  double weight_decay;
};

std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const char* kind : {"adamw", "adamw_hf", "adam", "sgd", "lion"}) {
    for (const double weight_decay : {0.0, 0.1}) {
      const std::string name = std::string(kind) + (weight_decay > 0 ? "_decay" : "");
      result.push_back(
          {name + "_reference_double", kind, reference::register_kernels, kDouble, weight_decay});
      result.push_back({name + "_reference_float", kind, reference::register_kernels, kFloat, weight_decay});
      result.push_back({name + "_cpu_float", kind, register_cpu_kernels, kFloat, weight_decay});
      result.push_back({name + "_cpu_bf16", kind, register_cpu_kernels, kBfloat16, weight_decay});
      result.push_back({name + "_cuda_float", kind, emulation::register_kernels, kFloat, weight_decay});
      result.push_back({name + "_cuda_f16", kind, emulation::register_kernels, kFloat16, weight_decay});
    }
  }
  return result;
}

OpCase case_of(const Setting& s) {
  const bool sgd = s.kind == "sgd", one_moment = sgd || s.kind == "lion";
  OpCase c{.name = s.name,
           .kind = s.kind,
           .inputs = {{.name = "schedule", .shape = {3}, .storage = Storage::kF64},
                      {.name = "factor", .shape = {1}, .storage = Storage::kF64},
                      statistic("grad", {kElements})},
           .attributes = {{"weight_decay", s.weight_decay}, {"cast", int64_t{1}}},
           .accumulators = {{0, statistic("master", {kElements})}, {1, statistic("m", {kElements})}}};
  if (!one_moment) c.accumulators[2] = statistic("v", {kElements});
  c.accumulators[one_moment ? 2 : 3] = activation("param", {kElements});
  if (sgd) c.attributes.set("momentum", kMomentum);
  for (const auto& [name, value] : {std::pair{"beta1", kBeta1}, {"beta2", kBeta2}, {"epsilon", kEpsilon}})
    if (!sgd) c.attributes.set(name, value);
  return c;
}

// Three steps of PyTorch 2.15 in double with the constants above: weights sin(1..4), gradients sin(10 t ...),
// a rate of 0.01 and a weight decay of 0.1.
TEST(OptimizerFormula, TextbookIsTorchs) {
  const std::pair<std::string, Numbers> answers[] = {
      {"adamw", {0.8486194928746258, 0.9190852107310749, 0.1566419294948306, -0.763496141272985}},
      {"adam", {0.8492113424786449, 0.9196819520581905, 0.15654366783483475, -0.7639348118778843}},
      {"sgd", {0.8437765137388206, 0.9178896030762516, 0.14809922441015982, -0.7578528981840665}}};
  for (const auto& [kind, want] : answers) {
    Numbers got;
    for (int i = 0; i < 4; ++i) {
      Weight w{std::sin(1.0 + i)};
      for (int step = 1; step <= 3; ++step)
        textbook_step(kind, step, 0.01, 0.1, std::sin(10.0 * step + i), w);
      got.push_back(w.value);
    }
    expect_close(got, want, 1e-14, kind);
  }
}

class Optimizer : public ::testing::TestWithParam<Setting> {};

TEST_P(Optimizer, FollowsItsFormula) {
  const Setting& s = GetParam();
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable kernels;
  s.register_kernels(kernels, nullptr);
  const Graph graph = make_graph(case_of(s), registry, s.precision);
  const Op& op = graph.op(0);
  GraphRunner runner(graph, kernels, {});
  const Tensor master = runner.tensor(op.outputs[0]), param = runner.tensor(op.outputs.back());
  write(master, random_numbers(statistic("master", {kElements}), 1));
  for (std::size_t i = 1; i + 1 < op.outputs.size(); ++i)
    write(runner.tensor(op.outputs[i]), Numbers(kElements, 0.0));
  std::vector<Weight> expected;
  for (const double value : read(master)) expected.push_back({value});

  const double bound = result_bound(s.precision.statistics, kSteps * kFunction);
  for (int step = 1; step <= kSteps; ++step) {
    write(runner.tensor(op.inputs[0]),
          {rate_at(step), 1 - std::pow(kBeta1, step), 1 - std::pow(kBeta2, step)});
    write(runner.tensor(op.inputs[1]), {kFactor});
    const Tensor grad = runner.tensor(op.inputs[2]);
    write(grad, random_numbers(statistic("grad", {kElements}), 10 + step));
    const Numbers gradients = read(grad);
    Numbers values, moments;
    for (int64_t i = 0; i < kElements; ++i) {
      textbook_step(s.kind, step, rate_at(step), s.weight_decay, gradients[i] * kFactor, expected[i]);
      values.push_back(expected[i].value);
      moments.push_back(expected[i].m);
    }
    runner.run_op(0, true);
    expect_close(read(master), values, bound, "master after step " + std::to_string(step));
    expect_close(read(runner.tensor(op.outputs[1])), moments, bound, "m after step " + std::to_string(step));
    GuardedBuffer rounded(param.bytes());
    const Tensor expected_param{.data = rounded.data(), .shape = param.shape, .dtype = param.dtype};
    write(expected_param, read(master));
    EXPECT_EQ(read(param), read(expected_param)) << "param is not master, rounded";
  }
  runner.expect_intact();
}

TEST_P(Optimizer, TakesNoStepWhereTheFactorIsNaN) {
  const Setting& s = GetParam();
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable kernels;
  s.register_kernels(kernels, nullptr);
  const Graph graph = make_graph(case_of(s), registry, s.precision);
  const Op& op = graph.op(0);
  GraphRunner runner(graph, kernels, {});
  write(runner.tensor(op.inputs[0]), {0.1, 0.1, 0.05});
  write(runner.tensor(op.inputs[1]), {std::nan("")});
  write(runner.tensor(op.inputs[2]), Numbers(kElements, 1.0));
  std::vector<std::vector<std::byte>> before;
  for (const ValueId out : op.outputs) {
    write(runner.tensor(out), Numbers(kElements, 2.0));
    before.push_back(runner.bytes(out));
  }
  runner.run_op(0, true);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(runner.bytes(op.outputs[i]), before[i]) << "output " << i << " changed";
}

TEST(ClipFactor, IsNaNWhereTheNormOrTheLossIsNotFinite) {
  const auto number = [](const char* name) {
    return ValueSpec{.name = name, .shape = {1}, .storage = Storage::kF64};
  };
  const OpCase c{.name = "clip",
                 .kind = "clip_factor",
                 .inputs = {number("sharded"), number("replicated"), absent(), absent(), number("loss")},
                 .attributes = {{"max_norm", 1.0}}};
  const AllBackends on;
  for (const KernelTable* kernels : {&on.reference, &on.cpu, &on.cuda})
    for (const double bad : {double{INFINITY}, std::nan("")})
      for (const bool of_norm : {true, false}) {
        CaseData data;
        data.inputs = {{1.0}, {of_norm ? bad : 3.0}, {}, {}, {of_norm ? 1.0 : bad}};
        const auto outputs = run_case(c, data, *kernels, kFloat);
        EXPECT_EQ(std::isfinite(outputs[0][0]), !of_norm);
        EXPECT_TRUE(std::isnan(outputs[1][0]));
      }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Optimizer, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test
