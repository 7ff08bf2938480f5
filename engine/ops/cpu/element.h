// Activations are f32 or bf16 in memory and float in registers. Work is divided into contiguous ranges by
// count and thread number alone, so that results depend on nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace recollect::cpu {

inline float load(float value) { return value; }
inline float load(bf16 value) { return static_cast<float>(value); }
inline void store(float* at, float value) { *at = value; }
inline void store(bf16* at, float value) { *at = bf16(value); }

// Calls f<float>() or f<bf16>(). An Error names the op kind for every other dtype.
template <typename F>
auto with_activation_type(DType dtype, const std::string& kind, F f) {
  if (dtype == DType::kF32) return f.template operator()<float>();
  if (dtype == DType::kBF16) return f.template operator()<bf16>();
  throw Error(
      ExitCode::kConfiguration,
      "the cpu backend has no " + kind + " in " + std::string(name_of(dtype)) + ", only in f32 and bf16",
      "use device.backend: reference, or another training.precision");
}

// Calls f(first, last, part) for each of `threads` contiguous parts of [0, count), in parallel.
template <typename F>
void parallel_ranges(int threads, int64_t count, F f) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; ++part) {
    const int64_t first = count * part / threads, last = count * (part + 1) / threads;
    if (first < last) f(first, last, part);
  }
}

// As parallel_ranges, with parts that begin at multiples of `grain`.
template <typename F>
void parallel_grains(int threads, int64_t count, int64_t grain, F f) {
  parallel_ranges(threads, (count + grain - 1) / grain, [&](int64_t first, int64_t last, int part) {
    f(first * grain, last * grain < count ? last * grain : count, part);
  });
}

}  // namespace recollect::cpu
