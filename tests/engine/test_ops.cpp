// Every op kind, case by case: gradients against finite differences, float against double, and the cpu and
// cuda backends against the reference; cuda's kernels run on the CPU (tests/gpu/emulation).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "engine/graph/differentiate.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

KernelTable reference_kernels() {
  KernelTable table;
  reference::register_kernels(table);
  return table;
}

KernelTable cpu_kernels() {
  KernelTable table;
  register_cpu_kernels(table);
  return table;
}

KernelTable cuda_kernels() {
  KernelTable table;
  emulation::register_kernels(table);
  return table;
}

std::string name_of_case(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name; }

// Cases of a size that thousands of forward runs can afford.
std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> result;
  for (const OpCase& c : op_cases()) {
    int64_t elements = 0;
    for (const ValueSpec& input : c.inputs) elements += input.shape.elements();
    if (!c.differentiable.empty() && !c.accumulate && elements < 400) result.push_back(c);
  }
  return result;
}

// The loss L = sum(c * y) of one op, or the op's own output where it is the loss; plus sum(e * x) for an
// input that is used elsewhere. Its gradient, as the op definitions build it, is compared with four-point
// central differences.
class Differences : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    register_engine_ops(registry_);
    const OpCase& c = GetParam();
    data_ = make_data(c, kDouble);
    graph_ = make_graph(c, registry_, kDouble);
    const Op forward = graph_.op(0);
    is_loss_ = c.kind.ends_with("_loss");
    output_ = forward.outputs[0];
    inputs_ = forward.inputs;
    std::vector<GradientSeed> seeds{{.value = output_, .gradient = is_loss_ ? kNone : add_seed(output_)}};
    if (c.used_elsewhere >= 0) {
      const ValueId x = inputs_[c.used_elsewhere];
      seeds.push_back({.value = x, .gradient = add_seed(x)});
    }
    std::vector<ValueId> targets;
    for (const int input : c.differentiable) targets.push_back(inputs_[input]);
    gradients_ = differentiate(graph_, registry_, targets, seeds);
    seeds_ = seeds;
    runner_ = std::make_unique<GraphRunner>(graph_, kernels_, c.state);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i] != kNone) write(runner_->tensor(inputs_[i]), data_.inputs[i]);
    for (const GradientSeed& seed : seeds_)
      if (seed.gradient != kNone)
        write(runner_->tensor(seed.gradient),
              random_numbers(activation("seed", graph_.value(seed.value).shape), 1000 + seed.value));
  }

  ValueId add_seed(ValueId of) {
    return graph_.add_value(
        {.name = "seed/" + graph_.value(of).name, .shape = graph_.value(of).shape, .dtype = DType::kF64});
  }

  double loss() {
    runner_->run_op(0, false);
    double sum = 0;
    for (const GradientSeed& seed : seeds_) {
      const Numbers value = read(runner_->tensor(seed.value));
      if (seed.gradient == kNone) {
        sum += value[0];
        continue;
      }
      const Numbers factor = read(runner_->tensor(seed.gradient));
      for (std::size_t i = 0; i < value.size(); ++i) sum += factor[i] * value[i];
    }
    return sum;
  }

  double difference(double& x) {
    const double h = 1e-3, start = x;
    const auto at = [&](double offset) {
      x = start + offset;
      return loss();
    };
    const double result = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    x = start;
    return result;
  }

  OpRegistry registry_;
  const KernelTable kernels_ = reference_kernels();
  CaseData data_;
  Graph graph_;
  bool is_loss_ = false;
  ValueId output_ = kNone;
  std::vector<ValueId> inputs_;
  std::vector<GradientSeed> seeds_;
  Gradients gradients_;
  std::unique_ptr<GraphRunner> runner_;
};

TEST_P(Differences, MatchTheGradient) {
  runner_->run();
  runner_->expect_intact();
  std::vector<Numbers> gradients;  // before any input is disturbed: a forward op may write gradients too
  for (const int input : GetParam().differentiable) {
    ASSERT_TRUE(gradients_.contains(inputs_[input])) << "no gradient for " << GetParam().inputs[input].name;
    gradients.push_back(read(runner_->tensor(gradients_.at(inputs_[input]))));
  }
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    const int input = GetParam().differentiable[k];
    const Numbers& analytic = gradients[k];
    double* x = runner_->tensor(inputs_[input]).as<double>();
    Numbers numeric;
    for (std::size_t i = 0; i < analytic.size(); ++i) numeric.push_back(difference(x[i]));
    expect_close(analytic, numeric, 1e-7, "gradient of " + GetParam().inputs[input].name);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Differences, ::testing::ValuesIn(differentiable_cases()), name_of_case);

// Where nothing is dropped, what comes from above is the gradient of both summands: no op copies it.
TEST(BiasDropoutAdd, HandsItsGradientDownWithoutDropout) {
  for (const double p : {0.0, 0.1}) {
    OpRegistry registry;
    register_engine_ops(registry);
    const OpCase c{
        .name = "add",
        .kind = "bias_dropout_add",
        .inputs = {activation("x", {4, 8}), statistic("bias", {8}), activation("residual", {4, 8})},
        .attributes = {{"p", p},
                       {"layer", int64_t{0}},
                       {"site", int64_t{0}},
                       {"sequence_length", int64_t{4}},
                       {"first_token", int64_t{0}}}};
    Graph graph = make_graph(c, registry, kFloat);
    const Op forward = graph.op(0);
    const ValueId y = forward.outputs[0];
    const ValueId dy = graph.add_value({.name = "dy", .shape = {4, 8}, .dtype = DType::kF32});
    const Gradients gradients =
        differentiate(graph, registry, forward.inputs, {{.value = y, .gradient = dy}});
    EXPECT_EQ(gradients.at(forward.inputs[2]), dy);
    EXPECT_EQ(gradients.at(forward.inputs[0]) == dy, p == 0) << p;
    ASSERT_EQ(graph.ops().size(), 2u);
    EXPECT_EQ(graph.op(1).def->name, p == 0 ? "column_sum" : "bias_dropout_add_backward");
  }
}

class Parity : public ::testing::TestWithParam<OpCase> {
 protected:
  // Compares `kernels` in `precision` with the reference in double on the same, rounded inputs.
  void compare(const KernelTable& kernels, Precision precision) {
    const OpCase& c = GetParam();
    const CaseData data = make_data(c, precision);
    const std::vector<Numbers> want = run_case(c, data, reference_kernels(), kDouble);
    const std::vector<Numbers> got = run_case(c, data, kernels, precision);
    const double bound = result_bound(precision.activation, longest_sum(c), c.bf16_roundings, c.condition);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], bound, "output " + std::to_string(i), size_of_accumulator(c, data, i));
  }
};

TEST_P(Parity, ReferenceFloat) { compare(reference_kernels(), kFloat); }
TEST_P(Parity, CpuFloat) { compare(cpu_kernels(), kFloat); }
TEST_P(Parity, CpuBfloat16) { compare(cpu_kernels(), kBfloat16); }
TEST_P(Parity, CudaFloat) { compare(cuda_kernels(), kFloat); }
TEST_P(Parity, CudaBfloat16) { compare(cuda_kernels(), kBfloat16); }
TEST_P(Parity, CudaFloat16) { compare(cuda_kernels(), kFloat16); }

INSTANTIATE_TEST_SUITE_P(Ops, Parity, ::testing::ValuesIn(op_cases()), name_of_case);

TEST(OpTable, HasACaseForEveryOpKind) {
  OpRegistry registry;
  register_engine_ops(registry);
  std::set<std::string> covered, differentiated;
  for (const OpCase& c : op_cases()) covered.insert(c.kind);
  for (const OpCase& c : differentiable_cases()) differentiated.insert(c.kind);
  for (const OpDef* def : registry.all()) {
    EXPECT_TRUE(covered.contains(def->name)) << def->name << " has no case";
    // What rounds has no derivative that differences would find: test_float8.cpp has its gradient.
    if (def->gradient && def->name != "linear_fp8") {
      EXPECT_TRUE(differentiated.contains(def->name)) << def->name << " has a gradient that no case checks";
    }
  }
}

TEST(OpTable, EveryBackendHasEveryOpKind) {
  OpRegistry registry;
  register_engine_ops(registry);
  const KernelTable reference = reference_kernels(), cpu = cpu_kernels(), cuda = cuda_kernels();
  for (const OpDef* def : registry.all()) {
    EXPECT_TRUE(reference.has(def->name)) << "reference lacks " << def->name;
    EXPECT_TRUE(cpu.has(def->name)) << "cpu lacks " << def->name;
    EXPECT_TRUE(cuda.has(def->name)) << "cuda lacks " << def->name;
  }
}

// The files that add op kinds, or kernels of them, in a function of their own name.
std::set<std::string> registering_files(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(RECOLLECT_SOURCE_DIR "/engine/ops/" + folder)) {
    const std::string name = entry.path().stem().string(), extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".cu") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (text.find("\nvoid register_" + name + "(") != std::string::npos) names.insert(name);
  }
  return names;
}

TEST(OpTable, AnOpIsInFilesOfOneNameEverywhere) {
  const std::set<std::string> ops = registering_files("");
  EXPECT_GE(ops.size(), 10u);
  for (const char* backend : {"reference", "cpu", "cuda"}) {
    std::set<std::string> kernels = registering_files(backend);
    // A file that would be long has its gradients' kernels in another beside it.
    std::erase_if(kernels, [&](const std::string& name) {
      const std::size_t stem = name.rfind("_backward");
      return stem != std::string::npos && kernels.contains(name.substr(0, stem));
    });
    EXPECT_EQ(kernels, ops) << backend;
  }
}

}  // namespace
}  // namespace recollect::test
