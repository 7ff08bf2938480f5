#include "tests/launch/training_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/graph/op_def.h"
#include "engine/ops/cpu_level.h"

namespace recollect::test {
namespace {

constexpr int kRuns = 4;
// Four runs find the deviation of one number to a half, that of a tensor far better.
constexpr double kOfMeasured = 1.5 * kDeviations;

// No sum of an op is over more than one extent of an input, but for sums of everything, which are in double.
int64_t longest_sum(const Graph& graph, const Op& op) {
  int64_t terms = 1;
  for (const ValueId input : op.inputs) {
    if (input == kNone) continue;
    const Shape& shape = graph.value(input).shape;
    for (int i = 0; i < shape.rank(); ++i) terms = std::max(terms, shape[i]);
  }
  return terms;
}

class RoundingNoise final : public ExecutorProbe {
 public:
  RoundingNoise(DType dtype, unsigned seed) : dtype_(dtype), random_(seed) {}

  void after_op(const Executor& executor, OpId id) override {
    const Graph& graph = executor.program().graph;
    const Op& op = graph.op(id);
    if (op.def->names_alone) return;
    const double deviation = sum_deviation(dtype_, longest_sum(graph, op));
    for (const ValueId output : op.outputs) {
      if (output == kNone) continue;
      const Tensor tensor = executor.tensor(output);
      if (tensor.dtype == DType::kF64) disturb(tensor.as<double>(), tensor.elements(), deviation);
      if (tensor.dtype == DType::kF32) disturb(tensor.as<float>(), tensor.elements(), deviation);
    }
  }

 private:
  template <typename T>
  void disturb(T* x, int64_t elements, double deviation) {
    // Zeros are sums of nothing; and where no number is negative no terms were, so that none cancelled.
    const bool cancels = std::any_of(x, x + elements, [](T number) { return number < 0; });
    double squares = 0;
    for (int64_t i = 0; i < elements; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double rms = cancels ? std::sqrt(squares / static_cast<double>(std::max<int64_t>(elements, 1))) : 0;
    std::uniform_real_distribution<double> spread(-std::sqrt(3.0), std::sqrt(3.0));
    for (int64_t i = 0; i < elements; ++i) {
      const double size = x[i] == 0 ? 0.0 : std::max(std::abs(static_cast<double>(x[i])), rms);
      x[i] = static_cast<T>(static_cast<double>(x[i]) + deviation * size * spread(random_));
    }
  }

  const DType dtype_;
  std::mt19937 random_;
};

// Squares of differences, added run by run.
class Deviation {
 public:
  void add(const std::vector<double>& exact, const std::vector<double>& disturbed) {
    squares_.resize(exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i)
      squares_[i] += (disturbed.at(i) - exact[i]) * (disturbed[i] - exact[i]);
  }
  // Each number's own, or that of its tensor's root mean square where it is less: few runs say little of one number.
  std::vector<double> bounds() const {
    double sum = 0;
    for (const double square : squares_) sum += square;
    const double mean = squares_.empty() ? 0 : sum / static_cast<double>(squares_.size());
    std::vector<double> bounds;
    for (const double square : squares_)
      bounds.push_back(kOfMeasured * std::sqrt(std::max(square, mean) / kRuns));
    return bounds;
  }

 private:
  std::vector<double> squares_;
};

// Of its bound.
double share_of(double expected, double seen, double bound) {
  const double difference = std::abs(seen - expected);
  if (std::isnan(difference)) return INFINITY;
  return difference == 0 ? 0 : difference / bound;
}

std::size_t worst_of(const std::vector<double>& expected, const std::vector<double>& seen,
                     const std::vector<double>& bounds) {
  std::size_t worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (share_of(expected[i], seen[i], bounds[i]) > share_of(expected[worst], seen[worst], bounds[worst]))
      worst = i;
  return worst;
}

}  // namespace

Tensors stored_as_float(Tensors bounds, const Tensors& numbers) {
  for (auto& [name, values] : bounds)
    if (const auto found = numbers.find(name); found != numbers.end())
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] += unit_roundoff(DType::kF32) * std::abs(found->second.at(i));
  return bounds;
}

double largest_share(const Tensors& expected, const Tensors& seen, const Tensors& bounds) {
  double largest = 0;
  for (const auto& [name, values] : expected) {
    const std::vector<double>&got = seen.at(name), &bound = bounds.at(name);
    const std::size_t worst = worst_of(values, got, bound);
    largest = std::max(largest, share_of(values[worst], got[worst], bound[worst]));
  }
  return largest;
}

std::vector<std::string> isas_here() {
  std::vector<std::string> isas;
  for (const CpuLevel& level : cpu_levels())
    if (can_run(level.isa)) isas.emplace_back(name_of(level.isa));
  return isas;
}

std::vector<std::string> on_cpu(std::vector<std::string> words, const std::string& isa,
                                const std::string& precision) {
  words.insert(words.end(), {"device.backend=cpu", "device.threads=1", "device.isa=" + isa,
                             "training.precision=" + precision});
  return words;
}

std::vector<double> losses_of(const Trained& trained) {
  std::vector<double> losses;
  for (const StepResult& step : trained.steps) losses.push_back(step.loss);
  return losses;
}

std::vector<double> norms_of(const Trained& trained) {
  std::vector<double> norms;
  for (const StepResult& step : trained.steps) norms.push_back(step.grad_norm);
  return norms;
}

Tensors rounding_bounds(DType dtype, const std::function<Tensors(ExecutorProbe*)>& run) {
  const Tensors exact = run(nullptr);
  std::map<std::string, Deviation> deviations;
  for (unsigned number = 1; number <= kRuns; ++number) {
    RoundingNoise noise(dtype, number);
    const Tensors disturbed = run(&noise);
    for (const auto& [name, values] : exact) deviations[name].add(values, disturbed.at(name));
  }
  Tensors bounds;
  for (const auto& [name, values] : exact) {
    bounds[name] = deviations[name].bounds();
    // What is computed of them in double.
    for (std::size_t i = 0; i < values.size(); ++i)
      bounds[name][i] += result_bound(DType::kF64, 1) * std::abs(values[i]);
  }
  return bounds;
}

Bounds rounding_bounds(const std::string& yaml, const std::vector<std::string>& words, DType dtype) {
  const std::string gradient = "gradient ", parameter = "parameter ";
  const Tensors all = rounding_bounds(dtype, [&](ExecutorProbe* noise) {
    const Trained trained =
        train(yaml, words, [&](int) { return ProgramParts{.edit_program = {}, .probe = noise}; });
    Tensors numbers{{"loss", losses_of(trained)}, {"norm", norms_of(trained)}};
    for (const auto& [name, values] : trained.gradients) numbers[gradient + name] = values;
    for (const auto& [name, values] : trained.parameters) numbers[parameter + name] = values;
    return numbers;
  });
  Bounds bounds{.losses = all.at("loss"), .norms = all.at("norm"), .gradients = {}, .parameters = {}};
  for (const auto& [name, values] : all) {
    if (name.starts_with(gradient)) bounds.gradients[name.substr(gradient.size())] = values;
    if (name.starts_with(parameter)) bounds.parameters[name.substr(parameter.size())] = values;
  }
  return bounds;
}

void expect_within(const std::vector<double>& expected, const std::vector<double>& seen,
                   const std::vector<double>& bounds, const std::string& what) {
  ASSERT_EQ(seen.size(), expected.size()) << what;
  ASSERT_EQ(bounds.size(), expected.size()) << what;
  const std::size_t worst = worst_of(expected, seen, bounds);
  EXPECT_LE(share_of(expected[worst], seen[worst], bounds[worst]), 1)
      << what << " element " << worst << ": " << seen[worst] << ", expected " << expected[worst] << " within "
      << bounds[worst];
}

void expect_within(const Tensors& expected, const Tensors& seen, const Tensors& bounds) {
  for (const auto& [name, values] : expected) {
    EXPECT_TRUE(seen.contains(name)) << name << " is missing";
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double x) { return x != 0; }))
        << name << " is all zero: nothing is compared";
  }
  for (const auto& [name, values] : seen) {
    const auto found = expected.find(name);
    expect_within(found == expected.end() ? std::vector<double>(values.size()) : found->second, values,
                  bounds.at(name), name);
  }
}

}  // namespace recollect::test
