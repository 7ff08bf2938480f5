// Every collective, dtype and awkward size on one communicator, against what one rank computes alone: the
// inputs of all ranks are a pure function of (rank, index), so each rank knows every result to the bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"
#include "engine/core/philox.h"

namespace recollect::test {

enum class Data { kSmallIntegers, kRandom };

template <typename T>
T input(Data data, int rank, int64_t index) {
  const RandomKey key{.seed = 7, .site = static_cast<uint32_t>(rank)};
  const uint32_t word = random_word(key, static_cast<uint64_t>(index));
  if (data == Data::kSmallIntegers || std::is_integral_v<T>) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(word % 17);
    return T(static_cast<float>(static_cast<int>(word % 17) - 8));
  }
  // Exponents far apart, so that another summation order gives other bits.
  const double magnitude = static_cast<double>(int64_t{1} << (word % 21)) / 1024.0;
  const double value = (static_cast<double>(word) / 4294967296.0 - 0.5) * magnitude;
  if constexpr (std::is_same_v<T, double>) return value;
  return T(static_cast<float>(value));
}

template <typename T>
std::vector<T> inputs(Data data, int rank, int64_t first, int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = input<T>(data, rank, first + i);
  return values;
}

// In rank order; bf16 and f16 in float, rounded once.
template <typename T>
T reduced(Data data, ReduceOp op, int ranks, int64_t index) {
  using Acc = std::conditional_t<sizeof(T) == 2, float, T>;
  Acc acc = static_cast<Acc>(input<T>(data, 0, index));
  for (int r = 1; r < ranks; ++r) {
    const Acc x = static_cast<Acc>(input<T>(data, r, index));
    acc = op == ReduceOp::kSum ? static_cast<Acc>(acc + x) : (x > acc ? x : acc);
  }
  return static_cast<T>(acc);
}

class CollectiveChecker {
 public:
  explicit CollectiveChecker(Communicator& communicator) : comm_(communicator) {}

  // What went wrong on this rank; empty when nothing did.
  std::vector<std::string> run(const std::vector<int64_t>& sizes);
  // One large size, where checking every dtype would take long.
  std::vector<std::string> run_large(int64_t n);

 private:
  template <typename T>
  static Tensor view(std::vector<T>& values) {
    return {values.data(), {static_cast<int64_t>(values.size())}, kDTypeOf<T>};
  }
  template <typename T>
  void expect(const std::vector<T>& actual, const std::vector<T>& expected, const std::string& what) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0) continue;
      failures_.push_back("rank " + std::to_string(comm_.rank()) + " of " + std::to_string(comm_.size()) +
                          ": " + what + " of " + std::to_string(expected.size()) + " x " +
                          std::string(name_of(kDTypeOf<T>)) + ": element " + std::to_string(i) + " is wrong");
      return;
    }
  }
  template <typename T>
  void all_reduce(Data data, ReduceOp op, int64_t n);
  template <typename T>
  void reduce_scatter(Data data, int64_t n);
  template <typename T>
  void all_gather(int64_t n);
  template <typename T>
  void broadcast(int64_t n);
  template <typename T>
  void reductions(int64_t n);

  Communicator& comm_;
  std::vector<std::string> failures_;
};

template <typename T>
void CollectiveChecker::all_reduce(Data data, ReduceOp op, int64_t n) {
  auto values = inputs<T>(data, comm_.rank(), 0, n);
  comm_.all_reduce(view(values), op);
  std::vector<T> expected(static_cast<std::size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    expected[static_cast<std::size_t>(i)] = reduced<T>(data, op, comm_.size(), i);
  expect(values, expected, op == ReduceOp::kSum ? "all_reduce sum" : "all_reduce max");
}

template <typename T>
void CollectiveChecker::reduce_scatter(Data data, int64_t n) {
  auto in = inputs<T>(data, comm_.rank(), 0, n * comm_.size());
  std::vector<T> out(static_cast<std::size_t>(n)), expected(static_cast<std::size_t>(n));
  comm_.reduce_scatter(view(in), view(out));
  for (int64_t i = 0; i < n; ++i)
    expected[static_cast<std::size_t>(i)] =
        reduced<T>(data, ReduceOp::kSum, comm_.size(), comm_.rank() * n + i);
  expect(out, expected, "reduce_scatter");
  Tensor part{in.data() + comm_.rank() * n, {n}, kDTypeOf<T>};
  comm_.reduce_scatter(view(in), part);
  expect(std::vector<T>(in.begin() + comm_.rank() * n, in.begin() + (comm_.rank() + 1) * n), expected,
         "reduce_scatter into its own part");
}

template <typename T>
void CollectiveChecker::all_gather(int64_t n) {
  auto in = inputs<T>(Data::kRandom, comm_.rank(), 0, n);
  std::vector<T> out(static_cast<std::size_t>(n * comm_.size())), expected;
  comm_.all_gather(view(in), view(out));
  for (int r = 0; r < comm_.size(); ++r) {
    const auto part = inputs<T>(Data::kRandom, r, 0, n);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  expect(out, expected, "all_gather");
  std::fill(out.begin(), out.end(), T{});
  std::copy(in.begin(), in.end(), out.begin() + comm_.rank() * n);
  comm_.all_gather({out.data() + comm_.rank() * n, {n}, kDTypeOf<T>}, view(out));
  expect(out, expected, "all_gather from its own part");
}

template <typename T>
void CollectiveChecker::broadcast(int64_t n) {
  for (int root = 0; root < comm_.size(); ++root) {
    auto values = inputs<T>(Data::kRandom, comm_.rank(), 0, n);
    comm_.broadcast(view(values), root);
    expect(values, inputs<T>(Data::kRandom, root, 0, n), "broadcast");
  }
}

template <typename T>
void CollectiveChecker::reductions(int64_t n) {
  for (const Data data : {Data::kSmallIntegers, Data::kRandom}) {
    all_reduce<T>(data, ReduceOp::kSum, n);
    all_reduce<T>(data, ReduceOp::kMax, n);
    reduce_scatter<T>(data, n);
  }
}

inline std::vector<std::string> CollectiveChecker::run(const std::vector<int64_t>& sizes) {
  for (const int64_t n : sizes) {
    reductions<double>(n);
    reductions<float>(n);
    reductions<bf16>(n);
    reductions<f16>(n);
    reductions<int64_t>(n);
    all_gather<double>(n);
    all_gather<bf16>(n);
    all_gather<uint8_t>(n);
    broadcast<float>(n);
    broadcast<uint8_t>(n);
    comm_.barrier();
  }
  return failures_;
}

inline std::vector<std::string> CollectiveChecker::run_large(int64_t n) {
  all_reduce<double>(Data::kRandom, ReduceOp::kSum, n);
  reduce_scatter<bf16>(Data::kRandom, n);
  all_gather<float>(n);
  broadcast<float>(n);
  return failures_;
}

}  // namespace recollect::test
