// Losses of labels in every backend: against the textbook's formula in double, with logits that would
// overflow an exponential, and with targets that name no class. Activations at such numbers, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

struct LossBackend {
  const char* name;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
};

class LabelLoss : public ::testing::TestWithParam<LossBackend> {
 protected:
  void SetUp() override { GetParam().register_kernels(kernels_, nullptr); }

  // Inputs as `precision` stores them.
  std::vector<Numbers> run(const OpCase& c, std::vector<Numbers> inputs) {
    CaseData data{.inputs = std::move(inputs), .accumulators = {}};
    return run_case(c, data, kernels_, GetParam().precision);
  }
  Numbers stored(Numbers numbers) const {
    GuardedBuffer buffer(numbers.size() * 8);
    const Tensor tensor{
        buffer.data(), {static_cast<int64_t>(numbers.size())}, GetParam().precision.activation};
    write(tensor, numbers);
    return read(tensor);
  }

  // Of what is stored as an activation; of what is not.
  static double bound(int64_t terms, double condition = 1) {
    return result_bound(GetParam().precision.activation, terms, 1, condition);
  }
  static double sums_bound(int64_t terms) { return result_bound(GetParam().precision.statistics, terms); }

  KernelTable kernels_;
};

OpCase classes_case(int64_t rows, int64_t classes, int64_t columns) {
  return {.name = "classes",
          .kind = "cross_entropy_loss",
          .inputs = {activation("logits", {rows * classes, columns}),
                     {.name = "targets", .shape = {rows, columns}, .storage = Storage::kI32},
                     {.name = "scale", .shape = {columns}, .storage = Storage::kF64}},
          .attributes = {{"classes", classes}, {"columns", columns}, {"gradient", int64_t{1}}}};
}

OpCase numbers_case(const char* form, int64_t count) {
  return {.name = "numbers",
          .kind = "elementwise_loss",
          .inputs = {activation("logits", {count, 1}),
                     {.name = "targets", .shape = {count, 1}, .storage = Storage::kF32},
                     {.name = "scale", .shape = {1}, .storage = Storage::kF64}},
          .attributes = {{"form", std::string(form)}, {"gradient", int64_t{1}}}};
}

// With long double's range the textbook's formula needs no trick.
std::vector<Numbers> textbook(const Numbers& logits, const Numbers& targets, const Numbers& scale,
                              std::size_t classes) {
  const std::size_t columns = scale.size();
  double loss = 0;
  Numbers gradient(logits.size(), 0.0);
  for (std::size_t at = 0; at < targets.size(); ++at) {
    if (targets[at] == -100) continue;
    const std::size_t column = at % columns, first = at / columns * classes * columns + column;
    long double sum = 0;
    for (std::size_t j = 0; j < classes; ++j) sum += std::exp((long double)logits[first + j * columns]);
    const auto target = static_cast<std::size_t>(targets[at]);
    loss += scale[column] * static_cast<double>(std::log(sum) - logits[first + target * columns]);
    for (std::size_t j = 0; j < classes; ++j)
      gradient[first + j * columns] =
          scale[column] *
          (static_cast<double>(std::exp((long double)logits[first + j * columns]) / sum) - (j == target));
  }
  return {{loss}, gradient};
}

TEST_P(LabelLoss, IsTheTextbooksFormula) {
  const OpCase c = classes_case(9, 37, 2);
  const Numbers logits = stored(random_numbers(activation("logits", {9 * 37, 2}, 3), 5));
  Numbers targets = random_numbers({.shape = {9, 2}, .fill = Fill::kTargets, .limit = 37}, 6);
  const Numbers scale{0.25, 0.0625};
  const std::vector<Numbers> got = run(c, {logits, targets, scale}),
                             want = textbook(logits, targets, scale, 37);
  expect_close(got[0], want[0], sums_bound(37), "loss");
  expect_close(got[1], want[1], bound(37, 12 + std::log(37.0)), "dlogits");
}

TEST_P(LabelLoss, ExtremeLogitsAreNumbers) {
  const OpCase c = classes_case(4, 4, 1);
  const Numbers logits =
      stored({1e4, -1e4, 0, 9e3, 1e4, -1e4, 0, 9e3, 1e4, 1e4, 1e4, 1e4, -1e4, -9984, -1e4, -1e4});
  const Numbers targets{0, 1, 2, 1}, scale{0.5};
  const std::vector<Numbers> got = run(c, {logits, targets, scale}),
                             want = textbook(logits, targets, scale, 4);
  expect_close(got[0], want[0], sums_bound(4), "loss");
  expect_close(got[1], want[1], bound(4), "dlogits");
  EXPECT_NEAR(want[1][5], -0.5, 1e-12);
}

TEST_P(LabelLoss, ExtremeNumbersAreNumbers) {
  const Numbers logits = stored({1e4, -1e4, 1e4, -1e4, 0, 120}), targets{1, 0, 0, 1, 0.5, 0};
  const std::vector<Numbers> sigmoid = run(numbers_case("sigmoid", 6), {logits, targets, {0.5}});
  const double large = logits[0];
  expect_close(sigmoid[0], {0.5 * (2 * large + std::log(2.0) + 120)}, sums_bound(6), "loss");
  expect_close(sigmoid[1], {0, 0, 0.5, -0.5, 0, 0.5}, sums_bound(6), "gradient");
  const std::vector<Numbers> squared = run(numbers_case("squared", 6), {logits, targets, {0.5}});
  double want = 0;
  for (std::size_t i = 0; i < 6; ++i) want += 0.5 * (logits[i] - targets[i]) * (logits[i] - targets[i]);
  expect_close(squared[0], {want}, sums_bound(6), "loss");
}

TEST_P(LabelLoss, ATargetThatNamesNoClassIsAnError) {
  const OpCase c = classes_case(3, 4, 2);
  const Numbers logits(24, 0.0), scale{1, 1};
  expect_error(ExitCode::kInput, {"target 4 of row 1, column 1 is none of the 4 classes", "-100"}, [&] {
    run(c, {logits, {0, -100, 3, 4, 1, 1}, scale});
  });
  expect_error(ExitCode::kInput, {"target -1 of row 2, column 0"}, [&] {
    run(c, {logits, {0, -100, 3, 3, -1, 1}, scale});
  });
}

TEST_P(LabelLoss, ActivationsOfExtremeNumbersAreNumbers) {
  const Numbers x = stored({1e4, -1e4, 300, -300, 88, -88, 0, 30, -30, 0.25});
  const auto count = static_cast<int64_t>(x.size());
  const Numbers tanh = run({.name = "t", .kind = "tanh", .inputs = {activation("x", {1, count})}}, {x})[0];
  Numbers gates = x, want_tanh, want_swiglu, ones(x.size(), 1.0);
  for (const double g : x) {
    want_tanh.push_back(std::tanh(g));
    want_swiglu.push_back(g >= 0 ? g / (1 + std::exp(-g)) : g * std::exp(g) / (1 + std::exp(g)));
  }
  expect_close(tanh, want_tanh, bound(0), "tanh");
  gates.insert(gates.end(), ones.begin(), ones.end());  // up
  const OpCase swiglu{.name = "s", .kind = "swiglu", .inputs = {activation("x", {1, 2 * count})}};
  expect_close(run(swiglu, {gates})[0], want_swiglu, bound(0), "swiglu");
  const OpCase backward{.name = "b",
                        .kind = "swiglu_backward",
                        .inputs = {activation("dy", {1, count}), activation("x", {1, 2 * count})}};
  const Numbers dx = run(backward, {ones, gates})[0];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double s = x[i] >= 0 ? 1 / (1 + std::exp(-x[i])) : std::exp(x[i]) / (1 + std::exp(x[i]));
    EXPECT_NEAR(dx[i], s + x[i] * s * (1 - s), 0.01) << x[i];
    EXPECT_NEAR(dx[x.size() + i], want_swiglu[i], 0.01 * std::fabs(x[i]) + 1e-6) << x[i];
  }
}

// Small results keep their relative accuracy.
TEST_P(LabelLoss, TanhOfSmallNumbersIsExact) {
  Numbers x;
  for (double v = 1e-4; v < 8; v *= 1.01) x.push_back(v), x.push_back(-v);
  x = stored(x);
  const Numbers y =
      run({.name = "t", .kind = "tanh", .inputs = {activation("x", {1, static_cast<int64_t>(x.size())})}},
          {x})[0];
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i] / std::tanh(x[i]), 1, bound(0)) << x[i];
}

INSTANTIATE_TEST_SUITE_P(
    Backends, LabelLoss,
    ::testing::Values(LossBackend{"reference_double", reference::register_kernels, kDouble},
                      LossBackend{"reference_float", reference::register_kernels, kFloat},
                      LossBackend{"cpu_float", register_cpu_kernels, kFloat},
                      LossBackend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                      LossBackend{"cuda_float", emulation::register_kernels, kFloat},
                      LossBackend{"cuda_bf16", emulation::register_kernels, kBfloat16}),
    [](const auto& info) { return info.param.name; });

// nn.Embedding's padding_idx: as if the tokens of padding had no gradient.
TEST(Reference, ThePaddingIdHasNoGradient) {
  OpCase c{.name = "padding",
           .kind = "embedding_backward",
           .inputs = {{.name = "ids", .shape = {2, 3}, .storage = Storage::kI32}, activation("dy", {6, 2})},
           .attributes = {{"first_row", int64_t{1}}, {"padding_id", int64_t{2}}},
           .accumulators = {{0, statistic("dtable", {3, 2})}}};
  KernelTable kernels;
  reference::register_kernels(kernels);
  const CaseData data{.inputs = {{2, 1, 3, 2, 1, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
                      .accumulators = {{0, Numbers(6, 0.0)}}};
  EXPECT_EQ(run_case(c, data, kernels, kDouble)[0], (Numbers{12, 14, 0, 0, 5, 6}));
  c.attributes.set("padding_id", int64_t{-1});
  EXPECT_EQ(run_case(c, data, kernels, kDouble)[0], (Numbers{12, 14, 8, 10, 5, 6}));
}

}  // namespace
}  // namespace recollect::test
