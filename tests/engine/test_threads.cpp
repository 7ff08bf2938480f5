// The number of threads decides who computes a number, and nothing else: not its bits, and of memory only the
// scratch that attention gives each thread.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <random>

#include "engine/ops/cpu/gemm.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"

namespace recollect::test {
namespace {

using cpu::Bf16Units;
using cpu::GemmSpec;

class WithThreads {
 public:
  explicit WithThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

constexpr int kCounts[] = {1, 2, 3, 8, 64};

bool same_bits(const std::vector<Numbers>& a, const std::vector<Numbers>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), 8 * a[i].size()) != 0)
      return false;
  return a.size() == b.size();
}

class Threads : public ::testing::TestWithParam<OpCase> {
 protected:
  std::size_t workspace_bytes(Precision precision) const {
    OpRegistry registry;
    register_engine_ops(registry);
    const Graph graph = make_graph(GetParam(), registry, precision);
    return kernels().make(OpView{graph, graph.op(0)})->workspace_bytes();
  }

  static KernelTable kernels() {
    KernelTable table;
    register_cpu_kernels(table);
    return table;
  }

  void compare(Precision precision) const {
    const OpCase& c = GetParam();
    const CaseData data = make_data(c, precision);
    const bool scratch_of_threads =
        c.kind == "attention" || c.kind == "attention_backward" || c.kind.ends_with("quantise");
    std::vector<Numbers> first;
    std::size_t bytes = 0;
    for (const int threads : kCounts) {
      const WithThreads scope(threads);
      const std::vector<Numbers> got = run_case(c, data, kernels(), precision);
      if (threads == 1) {
        first = got;
        bytes = workspace_bytes(precision);
      }
      EXPECT_TRUE(same_bits(first, got)) << threads << " threads give other bits than one";
      EXPECT_EQ(workspace_bytes(precision), bytes * (scratch_of_threads ? threads : 1));
    }
  }
};

TEST_P(Threads, DecideNoBitInFloat) { compare(kFloat); }
TEST_P(Threads, DecideNoBitInBfloat16) { compare(kBfloat16); }

INSTANTIATE_TEST_SUITE_P(Ops, Threads, ::testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

// Processor seconds of an update of so many elements, of all threads together; the best of some.
double update_seconds(OpCase c, int64_t elements, int threads) {
  const WithThreads scope(threads);
  c.inputs[2].shape = {elements};
  for (auto& [output, spec] : c.accumulators) spec.shape = {elements};
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable kernels;
  register_cpu_kernels(kernels);
  const Graph graph = make_graph(c, registry, kFloat);
  GraphRunner runner(graph, kernels, c.state);
  const CaseData data = make_data(c, kFloat);
  for (std::size_t i = 0; i < data.inputs.size(); ++i)
    write(runner.tensor(graph.op(0).inputs[i]), data.inputs[i]);
  for (const auto& [output, numbers] : data.accumulators)
    write(runner.tensor(graph.op(0).outputs[static_cast<std::size_t>(output)]), numbers);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const std::clock_t begin = std::clock();
    runner.run_op(0, true);
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// A rank of one thread runs the same loops as a team, as vectors too: they once were 20 times as slow.
TEST(OneThread, TakesNoLongerThanItsShare) {
  int updates = 0;
  for (const OpCase& c : op_cases())
    if (c.name.find("_6305") != std::string::npos) {
      ++updates;
      EXPECT_LT(update_seconds(c, 1 << 18, 1), 6 * update_seconds(c, 1 << 18, 2)) << c.name;
    }
  EXPECT_EQ(updates, 10);
}

// More rows than a part of a column sum may have at least, so that there are many parts, and blocks in them.
TEST(ColumnSums, AreCutByRowsAlone) {
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable kernels;
  register_cpu_kernels(kernels);
  for (const int64_t rows : {1, 31, 33, 700, 5000}) {
    const OpCase c{.name = "sums", .kind = "column_sum", .inputs = {activation("dy", {rows, 300})}};
    const CaseData data = make_data(c, kFloat);
    std::vector<Numbers> first;
    for (const int threads : kCounts) {
      const WithThreads scope(threads);
      const std::vector<Numbers> got = run_case(c, data, kernels, kFloat);
      if (threads == 1) first = got;
      EXPECT_TRUE(same_bits(first, got)) << rows << " rows, " << threads << " threads";
    }
    Numbers want(300, 0.0);
    for (int64_t i = 0; i < rows * 300; ++i) want[i % 300] += data.inputs[0][i];
    expect_close(first[0], want, result_bound(DType::kF32, rows), std::to_string(rows) + " rows");
  }
}

struct Operands {
  std::vector<std::byte> a, b;
  std::vector<double> product;  // in double, of the operands as they are stored
};

void put(std::vector<std::byte>& to, DType dtype, int64_t at, double& value) {
  if (dtype == DType::kF32) {
    const float stored = static_cast<float>(value);
    std::memcpy(to.data() + 4 * at, &stored, 4);
    value = stored;
  } else {
    const bf16 stored(static_cast<float>(value));
    std::memcpy(to.data() + 2 * at, &stored, 2);
    value = static_cast<float>(stored);
  }
}

Operands random_operands(const GemmSpec& s) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const std::size_t size = s.in == DType::kF32 ? 4 : 2;
  Operands o{.a = std::vector<std::byte>(size * s.m * s.k),
             .b = std::vector<std::byte>(size * s.k * s.n),
             .product = std::vector<double>(s.m * s.n)};
  std::vector<double> a(s.m * s.k), b(s.k * s.n);
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t k = 0; k < s.k; ++k)
      put(o.a, s.in, s.transpose_a ? k * s.m + i : i * s.k + k, a[i * s.k + k] = normal(random));
  for (int64_t k = 0; k < s.k; ++k)
    for (int64_t j = 0; j < s.n; ++j)
      put(o.b, s.in, s.transpose_b ? j * s.k + k : k * s.n + j, b[k * s.n + j] = normal(random));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t k = 0; k < s.k; ++k)
      for (int64_t j = 0; j < s.n; ++j) o.product[i * s.n + j] += a[i * s.k + k] * b[k * s.n + j];
  return o;
}

std::vector<float> run_gemm(const GemmSpec& s, const Operands& o, bool accumulate, std::size_t& bytes) {
  const cpu::Gemm gemm(s);
  bytes = gemm.workspace_bytes();
  GuardedBuffer workspace(bytes), c(sizeof(float) * s.m * s.n);
  std::vector<float> bias(s.n, 0.5f), start(s.m * s.n, 2.0f);
  std::memcpy(c.data(), start.data(), c.size());
  gemm.run(o.a.data(), o.b.data(), c.data(), s.bias ? bias.data() : nullptr, accumulate, workspace.data());
  EXPECT_TRUE(workspace.intact() && c.intact());
  std::vector<float> got(s.m * s.n);
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    if (s.out == DType::kF32)
      std::memcpy(&got[i], c.data() + 4 * i, 4);
    else
      got[i] = static_cast<float>(*reinterpret_cast<const bf16*>(c.data() + 2 * i));
  }
  return got;
}

// Depths of several passes, lines that fill no block, all ways in which operands may lie.
TEST(Gemm, HasTheSameBitsForAnyNumberOfThreads) {
  const int64_t shapes[][3] = {{1, 1, 1},      {7, 48, 2048},  {64, 16, 3072}, {33, 100, 129},
                               {100, 65, 700}, {256, 96, 200}, {40, 1100, 64}, {130, 70, 1025}};
  for (const DType in : {DType::kF32, DType::kBF16})
    for (const Bf16Units units : {Bf16Units::kFastest, Bf16Units::kDots, Bf16Units::kWidened})
      for (const auto& [m, n, k] : shapes)
        for (const int kind : {0, 1, 2, 3}) {
          if (in == DType::kF32 && units != Bf16Units::kFastest) continue;
          GemmSpec s{.m = m, .n = n, .k = k, .in = in, .units = units};
          s.transpose_b = kind == 0 || kind == 3;
          s.transpose_a = kind == 2 || kind == 3;
          s.accumulates = kind == 2;
          s.bias = kind == 0;
          if (kind < 2) s.out = in;
          const Operands o = random_operands(s);
          std::vector<float> first;
          std::size_t bytes = 0;
          for (const int threads : kCounts) {
            const WithThreads scope(threads);
            std::size_t now = 0;
            const std::vector<float> got = run_gemm(s, o, s.accumulates, now);
            if (threads == 1) {
              first = got;
              bytes = now;
            }
            EXPECT_EQ(std::memcmp(first.data(), got.data(), 4 * got.size()), 0)
                << m << " x " << n << " x " << k << ", kind " << kind << ", " << threads << " threads";
            EXPECT_EQ(now, bytes);
          }
          Numbers got(first.begin(), first.end()), want = o.product;
          for (double& x : want) x += s.bias ? 0.5 : s.accumulates ? 2.0 : 0.0;
          expect_close(got, want, result_bound(s.out, k),
                       std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
        }
}

}  // namespace
}  // namespace recollect::test
