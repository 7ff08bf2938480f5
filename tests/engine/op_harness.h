// Runs op cases. Every run is also a check of memory discipline: guards around every value and workspace stay
// intact, inputs stay as they were, outputs start as NaN, a second run gives the same bytes, and so does
// every sharing of memory that the op kind allows.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/op_def.h"
#include "engine/ops/ops.h"
#include "tests/engine/op_cases.h"

namespace recollect::test {

struct Precision {
  DType activation, statistics;
};
inline constexpr Precision kDouble{DType::kF64, DType::kF64};
inline constexpr Precision kFloat{DType::kF32, DType::kF32};
inline constexpr Precision kBfloat16{DType::kBF16, DType::kF32};
inline constexpr Precision kFloat16{DType::kF16, DType::kF32};

using Numbers = std::vector<double>;

DType dtype_of(Storage storage, Precision precision);
void write(const Tensor& tensor, const Numbers& numbers);  // rounds to the tensor's dtype
Numbers read(const Tensor& tensor);
Numbers random_numbers(const ValueSpec& spec, uint64_t seed);

// The numbers a case starts from, rounded as `precision` would store them.
struct CaseData {
  std::vector<Numbers> inputs;
  std::map<int, Numbers> accumulators;
};
CaseData make_data(const OpCase& c, Precision precision);

// Memory with guards on both sides; 64-byte aligned. Under AddressSanitizer a guard may not be read either.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes);
  GuardedBuffer(GuardedBuffer&&) = default;
  ~GuardedBuffer() { forbid(false); }
  std::byte* data() { return start_; }
  std::size_t size() const { return bytes_; }
  void fill_with_nan();
  bool intact() const;

 private:
  void forbid(bool forbidden) const;  // the guards

  std::vector<std::byte> storage_;
  std::byte* start_;
  std::size_t bytes_;
};

// A graph with memory of its own for every value, run op by op.
class GraphRunner {
 public:
  GraphRunner(const Graph& graph, const KernelTable& kernels, const RunState& state);  // prepares all kernels
  Tensor tensor(ValueId id);
  std::byte* data(ValueId id) { return buffers_.at(id).data(); }
  std::vector<std::byte> bytes(ValueId id);
  // Makes `value` live where `host` does.
  void share(ValueId value, ValueId host) { home_.at(value) = host; }
  void run();  // all ops, as in a step's first micro-batch
  void run_op(OpId id, bool accumulate);
  void expect_intact() const;  // a gtest expectation on every guard

 private:
  template <typename F>
  void with_args(OpId id, F f);

  const Graph& graph_;
  RunState state_;
  std::vector<GuardedBuffer> buffers_, workspaces_;
  std::vector<ValueId> home_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// The one-op graph of a case; the op is number 0.
Graph make_graph(const OpCase& c, const OpRegistry& registry, Precision precision);

// Runs the case with all the checks above; the numbers of every output.
std::vector<Numbers> run_case(const OpCase& c, const CaseData& data, const KernelTable& kernels,
                              Precision precision);

double root_mean_square(const Numbers& numbers);

// No sum of an op has more terms than the longest extent of what it reads, but for sums of everything, which are double.
int64_t longest_sum(const OpCase& c);
// Of what output `i` is added to, the root mean square; 0 where it is overwritten. A sum is as exact as what is added to it,
// however near to zero that brings it.
double size_of_accumulator(const OpCase& c, const CaseData& data, std::size_t i);

// Every element of `got` lies within `tolerance` of `want`, relative to the largest of its own size, the root
// mean square of `want`, and `scale`.
void expect_close(const Numbers& got, const Numbers& want, double tolerance, const std::string& what,
                  double scale = 0);

}  // namespace recollect::test
