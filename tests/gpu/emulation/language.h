// The language of our kernels as C++: its words, its vectors and its built-in functions. What a launch is,
// tests/gpu/fake_cuda says.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#include "tests/gpu/emulation/grid.h"
#include "tests/gpu/emulation/traffic.h"

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

#define RECOLLECT_LAUNCHES() \
  if (::recollect::emulation::traffic) ::recollect::emulation::traffic->begin_launch()
#define RECOLLECT_READS(address, bytes) \
  if (::recollect::emulation::traffic) ::recollect::emulation::traffic->touch(address, bytes, false)
#define RECOLLECT_WRITES(address, bytes) \
  if (::recollect::emulation::traffic) ::recollect::emulation::traffic->touch(address, bytes, true)

using dim3 = recollect::emulation::Dim3;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
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
  return std::atomic_ref<T>(*to).fetch_add(value, std::memory_order_relaxed);
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline double cospi(double x) { return std::cos(std::numbers::pi * x); }
inline double sinpi(double x) { return std::sin(std::numbers::pi * x); }
using std::isnan;
