// Stands in for CUDA's header of this name, as far as our kernels use it: the language's words, the runtime's
// launches, and the built-in functions. What a device would refuse is refused here too.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <numbers>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/gpu/emulation/grid.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

// Each declaration has memory of its own, once per block.
#define RECOLLECT_SHARED(name, ...)                                                           \
  static char name##_site;                                                                    \
  std::type_identity_t<__VA_ARGS__>& name = *static_cast<std::type_identity_t<__VA_ARGS__>*>( \
      ::recollect::emulation::shared_memory(&name##_site, sizeof(std::type_identity_t<__VA_ARGS__>)))
#define RECOLLECT_DYNAMIC_SHARED(name, type) \
  type* const name = static_cast<type*>(::recollect::emulation::shared_memory(nullptr, 0))

using dim3 = recollect::emulation::Dim3;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
using cudaStream_t = void*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

inline const char* cudaGetErrorString(cudaError_t error) { return error ? "invalid argument" : "no error"; }
inline const char* cudaGetErrorName(cudaError_t error) {
  return error ? "cudaErrorInvalidValue" : "cudaSuccess";
}

namespace recollect::emulation {

constexpr std::size_t kUsualShared = 48 << 10, kMostShared = 227 << 10;
inline thread_local std::map<const void*, std::size_t> allowed_shared;  // by kernel

}  // namespace recollect::emulation

inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (static_cast<std::size_t>(value) > recollect::emulation::kMostShared) return cudaErrorInvalidValue;
  recollect::emulation::allowed_shared[kernel] = value;
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using namespace recollect::emulation;
  const auto allowed = allowed_shared.find(reinterpret_cast<const void*>(kernel));
  const std::size_t most = allowed == allowed_shared.end() ? kUsualShared : allowed->second;
  if (config->dynamicSmemBytes > most || config->gridDim.y > 65535 || config->gridDim.x > 0x7fffffffu)
    return cudaErrorInvalidValue;
  const std::tuple<std::remove_cv_t<Parameters>...> copies(std::forward<Arguments>(arguments)...);
  run_grid(config->gridDim, config->blockDim, config->dynamicSmemBytes, [&] { std::apply(kernel, copies); });
  return cudaSuccess;
}

using recollect::emulation::Where;

inline void __syncthreads(Where where = Where::current()) { recollect::emulation::wait_for_block(where); }
inline void __syncwarp(Where where = Where::current()) { recollect::emulation::wait_for_warp(where); }

// Only whole warps meet here: the masks are all ones.
template <typename T>
const uint64_t* recollect_exchange(T value, Where where) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return recollect::emulation::exchange(bits, where);
}
template <typename T>
T recollect_from(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance, Where where = Where::current()) {
  return recollect_from<T>(recollect_exchange(value, where)[recollect::emulation::lane() ^ distance]);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned distance, Where where = Where::current()) {
  const unsigned lane = recollect::emulation::lane();
  return recollect_from<T>(recollect_exchange(value, where)[lane >= distance ? lane - distance : lane]);
}
inline unsigned __match_any_sync(unsigned, int value, Where where = Where::current()) {
  const uint64_t* all = recollect_exchange(value, where);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    same |= unsigned{recollect_from<int>(all[lane]) == value} << lane;
  return same;
}

template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline double cospi(double x) { return std::cos(std::numbers::pi * x); }
inline double sinpi(double x) { return std::sin(std::numbers::pi * x); }
using std::isnan;
