// What this machine can do at most: its arithmetic units from registers alone, and its memory, on all OpenMP threads.
// The best of many runs counts, since a neighbour only ever slows one; 0 where the processor has no such unit.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "engine/core/arena.h"
#include "engine/ops/cpu/amx_tile.h"

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace recollect::bench {

// Seconds of the fastest of the runs that fit into about half a second.
template <typename F>
double best_seconds(F run) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = 1e9, spent = 0;
  for (int runs = 0; runs < 3 || (spent < 0.5 && runs < 2000); ++runs) {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

// Of a = b + c d (McCalpin, STREAM), bytes a second: two arrays read and one written, each larger than caches.
inline double triad_rate() {
  constexpr int64_t n = int64_t{1} << 24;
  constexpr std::size_t bytes = n * sizeof(double);
  Arena arena(3 * bytes);
  double* const a = reinterpret_cast<double*>(arena.at(0));
  double *const b = a + n, *const c = b + n;
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) a[i] = 1, b[i] = 2, c[i] = 0.5;
  const double seconds = best_seconds([&] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3.0 * c[i];
  });
  return 3.0 * bytes / seconds;
}

constexpr int kRounds = 100'000;  // of one timing: some milliseconds

template <typename F>
void on_all_threads(F rounds) {
#pragma omp parallel
  rounds();
}

// FLOPs a second of `flops` a round and thread.
template <typename F>
double unit_rate(double flops, F rounds) {
  return flops * kRounds * omp_get_max_threads() / best_seconds([&] { on_all_threads(rounds); });
}

#ifdef __FMA__
#ifdef __AVX512F__
using Floats = __m512;
#else
using Floats = __m256;
#endif

// Twelve sums at a time hide what one instruction takes. All numbers are zero: none is too small for f32's normal form.
#define RECOLLECT_RATE(Vector, instruction)                                                                 \
  Vector sums[12] = {}, zero = {};                                                                          \
  for (int round = 0; round < kRounds; ++round) {                                                           \
    _Pragma("GCC unroll 12") for (Vector & sum : sums) asm volatile(instruction " %1, %1, %0" : "+v"(sum) : \
                                                                    "v"(zero));                             \
  }
inline void multiply_add() { RECOLLECT_RATE(Floats, "vfmadd231ps") }
inline void multiply_add_256() { RECOLLECT_RATE(__m256, "vfmadd231ps") }
inline double multiply_add_flops(std::size_t vector) {
  return 12.0 * 2 * static_cast<double>(vector / sizeof(float));
}
#endif

// Of f32's multiply-add.
inline double multiply_add_rate() {
#ifdef __FMA__
  return unit_rate(multiply_add_flops(sizeof(Floats)), multiply_add);
#else
  return 0;
#endif
}

// The part of the multiply-add units' rate that `run`, of `flops`, reaches with
// vectors of `bytes`, 32 or 64: by processor time, the median of neighbouring
// runs, so that other load slows both. 0 if the processor has no such unit.
template <typename F>
double part_of_units([[maybe_unused]] std::size_t bytes, [[maybe_unused]] double flops,
                     [[maybe_unused]] F run) {
#ifdef __FMA__
  if (bytes != sizeof(Floats) && bytes != sizeof(__m256)) return 0;
  const auto units = bytes == sizeof(Floats) ? multiply_add : multiply_add_256;
  constexpr int kTimes = 16;
  const double unit_flops = multiply_add_flops(bytes) * kTimes * kRounds * omp_get_max_threads();
  const auto seconds = [](const auto& what) {  // processor time
    const std::clock_t start = std::clock();
    what();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  std::array<double, 31> parts;
  for (double& part : parts) {
    const double before = seconds([&] {
      on_all_threads([&] {
        for (int i = 0; i < kTimes; ++i) units();
      });
    }),
                 own = seconds(run);
    part = flops / own / (unit_flops / before);
  }
  std::nth_element(parts.begin(), parts.begin() + parts.size() / 2, parts.end());
  return parts[parts.size() / 2];
#else
  return 0;
#endif
}

// Of bf16's dot product of pairs.
inline double dot_product_rate() {
#if defined(__AVX512F__) && defined(__AVX512BF16__)
  return unit_rate(12.0 * 4 * sizeof(Floats) / 4, [] { RECOLLECT_RATE(Floats, "vdpbf16ps") });
#else
  return 0;
#endif
}

// Of bf16's product of tiles: two times two of them, so that each waits for none of its own.
inline double tile_product_rate() {
#ifdef RECOLLECT_AMX
  if (!cpu::amx::available()) return 0;
  constexpr double kFlops = 2.0 * 16 * 16 * cpu::amx::kDepth;
  return unit_rate(4 * kFlops, [] {
    const cpu::amx::TileRegisters registers;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int round = 0; round < kRounds; ++round) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  });
#else
  return 0;
#endif
}

#undef RECOLLECT_RATE

}  // namespace recollect::bench
