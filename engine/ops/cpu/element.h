// Element types and the division of work. Activations are f32 or bf16 in memory and float in registers. Work
// is divided into contiguous ranges that depend only on the count and the thread's number, so results depend
// on nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace recollect::cpu {

inline float load(float value) { return value; }
inline float load(bf16 value) { return static_cast<float>(value); }
inline void store(float* at, float value) { *at = value; }
inline void store(bf16* at, float value) { *at = bf16(value); }

// Rounds floats to bf16, to nearest with ties to even.
inline void narrow(const float* from, int64_t n, bf16* to) {
  int64_t i = 0;
#ifdef __AVX512BF16__
  for (; i + 32 <= n; i += 32) {
    const __m512 low = _mm512_loadu_ps(from + i), high = _mm512_loadu_ps(from + i + 16);
    _mm512_storeu_si512(to + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
#endif
  const int64_t rest = n - i;
#pragma omp simd
  for (int64_t j = 0; j < rest; ++j) store(to + i + j, from[i + j]);
}

// Sets to[i] = f(i) for i < n, in runs of ascending i. f may read to[i], and is inlined into vector code. If
// the processor has an instruction that rounds to bf16 it is used, because the compiler does not find it by
// itself.
template <typename A, typename F>
void write_each(A* to, int64_t n, F f) {
  if constexpr (std::is_same_v<A, float>) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = f(i);
  } else {
    constexpr int64_t kRun = 256;
    alignas(64) float run[kRun];
    for (int64_t first = 0; first < n; first += kRun) {
      const int64_t count = std::min(kRun, n - first);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) run[i] = f(first + i);
      narrow(run, count, to + first);
    }
  }
}

// The same for two outputs: f(i, a, b) sets both numbers, and may read the elements that they overwrite.
template <typename A, typename F>
void write_both(A* first, A* second, int64_t n, F f) {
  if constexpr (std::is_same_v<A, float>) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) f(i, first[i], second[i]);
  } else {
    constexpr int64_t kRun = 256;
    alignas(64) float firsts[kRun], seconds[kRun];
    for (int64_t begin = 0; begin < n; begin += kRun) {
      const int64_t count = std::min(kRun, n - begin);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) f(begin + i, firsts[i], seconds[i]);
      narrow(firsts, count, first + begin);
      narrow(seconds, count, second + begin);
    }
  }
}

// Calls f<float>() or f<bf16>(). For any other dtype throws an Error that names the op kind.
template <typename F>
auto with_activation_type(DType dtype, const std::string& kind, F f) {
  if (dtype == DType::kF32) return f.template operator()<float>();
  if (dtype == DType::kBF16) return f.template operator()<bf16>();
  throw Error(
      ExitCode::kConfiguration,
      "the cpu backend has no " + kind + " in " + std::string(name_of(dtype)) + ", only in f32 and bf16",
      "use device.backend: reference, or another training.precision");
}

// Calls f(first, last, part) in parallel for each of `threads` contiguous parts of [0, count). A single
// thread, or work that cannot be divided, uses no OpenMP team, because OpenMP would allocate one every time.
template <typename F>
void parallel_ranges(int threads, int64_t count, F f) {
  if (threads == 1 || count <= 1) {
    if (count > 0) f(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; ++part) {
    const int64_t first = count * part / threads, last = count * (part + 1) / threads;
    if (first < last) f(first, last, part);
  }
}

// Like parallel_ranges, with parts that begin at multiples of `grain`.
template <typename F>
void parallel_grains(int threads, int64_t count, int64_t grain, F f) {
  parallel_ranges(threads, (count + grain - 1) / grain, [&](int64_t first, int64_t last, int part) {
    f(first * grain, last * grain < count ? last * grain : count, part);
  });
}

}  // namespace recollect::cpu
