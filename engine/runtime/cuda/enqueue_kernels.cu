// The functions of enqueue.h that need kernels. Pointers are aligned as in an arena.
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/enqueue.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 16 * kMultiprocessors;

constexpr int kEach = 8;  // elements per thread

// Loads kEach elements as floats. Every conversion goes through float.
template <typename T>
__device__ Floats<kEach> load_each(const T* from) {
  if constexpr (sizeof(T) == 8) {
    Floats<kEach> x;
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const double2 two = *reinterpret_cast<const double2*>(from + i);
      x[i] = static_cast<float>(two.x), x[i + 1] = static_cast<float>(two.y);
    }
    return x;
  } else {
    return load<kEach>(from);
  }
}

template <typename T>
__device__ void store_each(T* to, const Floats<kEach>& x) {
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < kEach; i += 2) *reinterpret_cast<double2*>(to + i) = {x[i], x[i + 1]};
  } else {
    store<kEach>(to, x);
  }
}

template <typename From, typename To>
__device__ void convert_one(const From* from, To* to) {
  float x;
  if constexpr (sizeof(From) == 8)
    x = static_cast<float>(*from);
  else
    x = load_one(from);
  if constexpr (sizeof(To) == 8)
    *to = x;
  else
    store_one(to, x);
}

// A thread converts kEach consecutive elements; the last one converts the remainder one by one.
template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    convert_elements(const From* __restrict__ from, To* __restrict__ to, int64_t count) {
  const int64_t at = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * kEach;
  if (at + kEach <= count) {
    store_each(to + at, load_each(from + at));
  } else {
    for (int64_t i = at; i < count; ++i) convert_one(from + i, to + i);
  }
}

template <typename F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kBF16:
      return f.template operator()<bf16>();
    case DType::kF16:
      return f.template operator()<f16>();
    default:
      throw Error(ExitCode::kInternal, "no conversion from or to " + std::string(name_of(dtype)));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_elements(const T* __restrict__ from, T* __restrict__ to, int64_t count) {
  const int64_t step = gridDim.x * int64_t{kThreads};
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += step) to[i] += from[i];
}

// Maps `word` one to one for a given index (the SplitMix64 finaliser), so that a change of one word changes
// the sum.
__device__ unsigned long long scrambled(uint64_t index, uint64_t word) {
  uint64_t x = word + (index + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Adds the scrambled 8-byte words of the data to `*hash`. The order of atomic additions does not matter,
// because integer addition gives the same sum in every order.
__global__ void __launch_bounds__(kThreads)
    add_hash(const unsigned char* data, uint64_t bytes, unsigned long long* hash) {
  const uint64_t thread = blockIdx.x * uint64_t{kThreads} + threadIdx.x,
                 step = gridDim.x * uint64_t{kThreads};
  const uint64_t pairs = bytes / 16;
  unsigned long long sum = 0;
  for (uint64_t i = thread; i < pairs; i += step) {
    const ulonglong2 two = reinterpret_cast<const ulonglong2*>(data)[i];
    sum += scrambled(2 * i, two.x) + scrambled(2 * i + 1, two.y);
  }
  if (thread == 0) {  // the last bytes, padded with zeros, and the length
    uint64_t first = 0, second = 0;
    for (uint64_t b = 0; b < bytes % 16; ++b)
      (b < 8 ? first : second) |= uint64_t{data[16 * pairs + b]} << (8 * (b % 8));
    sum += scrambled(2 * pairs, first) + scrambled(2 * pairs + 1, second) + scrambled(~uint64_t{0}, bytes);
  }
  sum = reduce_block<Sum>(sum, 0ull);
  if (threadIdx.x == 0) atomicAdd(hash, sum);
}

}  // namespace

void convert(const Tensor& from, const Tensor& to, void* stream) {
  const int64_t count = from.elements();
  require(from.dtype != to.dtype, "a conversion is between two dtypes");
  with_type(from.dtype, [&]<typename From>() {
    with_type(to.dtype, [&]<typename To>() {
      if constexpr (!std::is_same_v<From, To>)
        launch(convert_elements<From, To>, grid_of(ceil_div(count, kEach * kThreads)), dim3(kThreads), 0,
               stream, from.as<From>(), to.as<To>(), count);
    });
  });
}

void accumulate(const Tensor& from, const Tensor& to, void* stream) {
  const int64_t count = from.elements();
  const auto grid = grid_of(std::clamp<int64_t>(ceil_div(count, kThreads), 1, kMostBlocks));
  if (from.dtype == DType::kF64)
    launch(add_elements<double>, grid, dim3(kThreads), 0, stream, from.as<double>(), to.as<double>(), count);
  else
    launch(add_elements<float>, grid, dim3(kThreads), 0, stream, from.as<float>(), to.as<float>(), count);
}

void hash_bytes(const void* data, std::size_t bytes, int64_t* hash, void* stream) {
  clear_bytes(hash, sizeof(*hash), stream);
  const int64_t blocks = std::clamp<int64_t>(ceil_div(bytes, 64 * kThreads), 1, kMostBlocks);
  launch(add_hash, grid_of(blocks), dim3(kThreads), 0, stream, static_cast<const unsigned char*>(data), bytes,
         reinterpret_cast<unsigned long long*>(hash));
}

}  // namespace recollect::cuda
