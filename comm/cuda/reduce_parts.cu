// Elementwise reduction of the ranks' parts on a device. One thread reduces an element, from the first part
// to the last, in registers. It handles 16 bytes at a time if all addresses are aligned. A thread reads its
// elements of all parts before it writes them, so the result may replace one of the parts.
#include "comm/cuda/reduce_parts.h"

#include <algorithm>
#include <type_traits>

#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocks = 8 * kMultiprocessors;

struct Parts {
  const void* at[kMostParts];
};

template <typename T>
using Accumulator = std::conditional_t<sizeof(T) == 2, float, T>;

template <typename T>
__device__ Accumulator<T> widen(const T& x) {
  if constexpr (sizeof(T) == 2)
    return load_one(&x);
  else
    return x;
}

template <typename T>
__device__ void narrow(Accumulator<T> x, T* to) {
  if constexpr (sizeof(T) == 2)
    store_one(to, x);
  else
    *to = x;
}

template <ReduceOp op, typename A>
__device__ A combine(A a, A b) {
  if constexpr (op == ReduceOp::kMax)
    return b > a || b != b ? b : a;
  else if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) + static_cast<std::make_unsigned_t<A>>(b));
  else
    return a + b;
}

// N elements that are read and written in one access.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

template <typename T, ReduceOp op, int N>
__global__ void __launch_bounds__(kThreads)
    reduce_packs(const Parts parts, int count, T* out, int64_t packs) {
  using P = Pack<T, N>;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs;
       i += int64_t{gridDim.x} * kThreads) {
    Accumulator<T> acc[N];
    const P first = static_cast<const P*>(parts.at[0])[i];
#pragma unroll
    for (int e = 0; e < N; ++e) acc[e] = widen(first.at[e]);
    for (int p = 1; p < count; ++p) {
      const P next = static_cast<const P*>(parts.at[p])[i];
#pragma unroll
      for (int e = 0; e < N; ++e) acc[e] = combine<op>(acc[e], widen(next.at[e]));
    }
    P result;
#pragma unroll
    for (int e = 0; e < N; ++e) narrow(acc[e], &result.at[e]);
    reinterpret_cast<P*>(out)[i] = result;
  }
}

template <typename T, ReduceOp op, int N>
void launch_packs(const Parts& parts, int count, T* out, int64_t packs, void* stream) {
  const int64_t blocks = std::min(kBlocks, ceil_div(packs, kThreads));
  launch(reduce_packs<T, op, N>, grid_of(blocks), dim3(kThreads), 0, stream, parts, count, out, packs);
}

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

template <typename T, ReduceOp op>
void reduce_as(Parts parts, int count, void* out, int64_t elements, void* stream) {
  constexpr int kPack = 16 / sizeof(T);
  const bool whole = is_aligned(out) && std::all_of(parts.at, parts.at + count, is_aligned);
  const int64_t packs = whole ? elements / kPack : 0, rest = elements - packs * kPack;
  launch_packs<T, op, kPack>(parts, count, static_cast<T*>(out), packs, stream);
  for (int p = 0; p < count; ++p) parts.at[p] = static_cast<const T*>(parts.at[p]) + packs * kPack;
  launch_packs<T, op, 1>(parts, count, static_cast<T*>(out) + packs * kPack, rest, stream);
}

template <ReduceOp op>
void reduce_by(DType dtype, const Parts& parts, int count, void* out, int64_t elements, void* stream) {
  switch (dtype) {
    case DType::kF64:
      return reduce_as<double, op>(parts, count, out, elements, stream);
    case DType::kF32:
      return reduce_as<float, op>(parts, count, out, elements, stream);
    case DType::kBF16:
      return reduce_as<bf16, op>(parts, count, out, elements, stream);
    case DType::kF16:
      return reduce_as<f16, op>(parts, count, out, elements, stream);
    case DType::kI64:
      return reduce_as<int64_t, op>(parts, count, out, elements, stream);
    default:
      require(false, "a reduction of " + std::string(name_of(dtype)) + " does not exist");
  }
}

}  // namespace

void reduce_parts(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements,
                  void* stream) {
  require(count >= 1 && count <= kMostParts, "a reduction of so many parts does not exist");
  Parts copied{};
  std::copy_n(parts, count, copied.at);
  if (op == ReduceOp::kSum)
    reduce_by<ReduceOp::kSum>(dtype, copied, count, out, elements, stream);
  else
    reduce_by<ReduceOp::kMax>(dtype, copied, count, out, elements, stream);
}

}  // namespace recollect::cuda
