// A block of accumulators stays in the first-level cache while the parts stream through it. Each part is read
// once and `out` is written once, whatever the number of ranks.
#include "comm/reduction.h"

#include <algorithm>

namespace recollect {
namespace {

constexpr int64_t kBlock = 1024;

template <typename T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<bf16> {
  using type = float;
};
template <>
struct AccumulatorOf<f16> {
  using type = float;
};
template <>
struct AccumulatorOf<int64_t> {
  using type = uint64_t;  // sums wrap around instead of being undefined
};

struct Sum {
  template <typename Acc, typename T>
  static Acc apply(Acc a, T x) {
    return a + static_cast<Acc>(x);
  }
};

struct Max {
  template <typename Acc, typename T>
  static Acc apply(Acc a, T x) {
    if constexpr (std::is_same_v<T, int64_t>) {
      return static_cast<Acc>(std::max(static_cast<int64_t>(a), x));
    } else {
      const Acc b = static_cast<Acc>(x);
      return ((b > a) | (b != b)) ? b : a;
    }
  }
};

template <typename T, typename Op>
void reduce(const void* const* parts, int count, void* out, int64_t elements) {
  using Acc = typename AccumulatorOf<T>::type;
  alignas(64) Acc acc[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    const T* first = static_cast<const T*>(parts[0]) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<Acc>(first[i]);
    for (int p = 1; p < count; ++p) {
      const T* part = static_cast<const T*>(parts[p]) + begin;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) acc[i] = Op::apply(acc[i], part[i]);
    }
    T* to = static_cast<T*>(out) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(acc[i]);
  }
}

template <typename Op>
void reduce_as(DType dtype, const void* const* parts, int count, void* out, int64_t elements) {
  switch (dtype) {
    case DType::kF64:
      return reduce<double, Op>(parts, count, out, elements);
    case DType::kF32:
      return reduce<float, Op>(parts, count, out, elements);
    case DType::kBF16:
      return reduce<bf16, Op>(parts, count, out, elements);
    case DType::kF16:
      return reduce<f16, Op>(parts, count, out, elements);
    case DType::kI64:
      return reduce<int64_t, Op>(parts, count, out, elements);
    default:
      require(false, "a reduction of " + std::string(name_of(dtype)) + " does not exist");
  }
}

}  // namespace

bool is_reducible(DType dtype) { return is_floating(dtype) || dtype == DType::kI64; }

void reduce_parts(DType dtype, ReduceOp op, const void* const* parts, int count, void* out,
                  int64_t elements) {
  if (op == ReduceOp::kSum) {
    reduce_as<Sum>(dtype, parts, count, out, elements);
  } else {
    reduce_as<Max>(dtype, parts, count, out, elements);
  }
}

}  // namespace recollect
