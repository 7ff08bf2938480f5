// Transposes matrices in registers, in squares with as many 32-bit words per side as a vector has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/lanes.h"

namespace recollect::cpu {

// One row per vector.
using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));

#ifdef __AVX512F__

inline void transpose_words(Words (&rows)[kLanes]) {
  using Pairs = uint64_t __attribute__((vector_size(64)));
  Words r[16], t[16];
  std::copy_n(rows, 16, r);
  for (int i = 0; i < 16; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    t[i + 1] =
        __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  Pairs p[16], q[16];
  for (int i = 0; i < 16; ++i) p[i] = reinterpret_cast<Pairs>(t[i]);
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      q[i + 2 * j] = __builtin_shufflevector(p[i + j], p[i + j + 2], 0, 8, 2, 10, 4, 12, 6, 14);
      q[i + 2 * j + 1] = __builtin_shufflevector(p[i + j], p[i + j + 2], 1, 9, 3, 11, 5, 13, 7, 15);
    }
  // Now the four quarters of q[4 i + j] hold columns j, j + 4, j + 8 and j + 12 of rows 4 i to 4 i + 3.
  for (int j = 0; j < 4; ++j) {
    const Pairs even01 = __builtin_shufflevector(q[j], q[j + 4], 0, 1, 4, 5, 8, 9, 12, 13);
    const Pairs odd01 = __builtin_shufflevector(q[j], q[j + 4], 2, 3, 6, 7, 10, 11, 14, 15);
    const Pairs even23 = __builtin_shufflevector(q[j + 8], q[j + 12], 0, 1, 4, 5, 8, 9, 12, 13);
    const Pairs odd23 = __builtin_shufflevector(q[j + 8], q[j + 12], 2, 3, 6, 7, 10, 11, 14, 15);
    rows[j] = reinterpret_cast<Words>(__builtin_shufflevector(even01, even23, 0, 1, 4, 5, 8, 9, 12, 13));
    rows[j + 4] = reinterpret_cast<Words>(__builtin_shufflevector(odd01, odd23, 0, 1, 4, 5, 8, 9, 12, 13));
    rows[j + 8] =
        reinterpret_cast<Words>(__builtin_shufflevector(even01, even23, 2, 3, 6, 7, 10, 11, 14, 15));
    rows[j + 12] = reinterpret_cast<Words>(__builtin_shufflevector(odd01, odd23, 2, 3, 6, 7, 10, 11, 14, 15));
  }
}

#else

// Exchanges squares of `step` words: those of `upper` whose columns have the bit `step`, with those of
// `lower` whose columns do not.
template <int step, int... column>
void exchange(Words& upper, Words& lower, std::integer_sequence<int, column...>) {
  const Words above =
      __builtin_shufflevector(upper, lower, (column & step ? column - step + kLanes : column)...);
  lower = __builtin_shufflevector(upper, lower, (column & step ? column + kLanes : column + step)...);
  upper = above;
}

// Exchanges halves, then halves of the halves, down to single words.
template <int step = kLanes / 2>
void transpose_words(Words (&rows)[kLanes]) {
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i)
    if (!(i & step)) exchange<step>(rows[i], rows[i + step], std::make_integer_sequence<int, kLanes>());
  if constexpr (step > 1) transpose_words<step / 2>(rows);
}

#endif

#if defined(__AVX2__) && !defined(__AVX512F__)

// Loads four words of each of two rows, widened. Loads exchange halves faster than register operations do.
inline Words load_halves(const float* low, const float* high) {
  return reinterpret_cast<Words>(
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1));
}
inline Words load_halves(const bf16* low, const bf16* high) {
  const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)),
                second = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(high));
  return reinterpret_cast<Words>(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_unpacklo_epi64(first, second)), 16));
}

template <typename A>
void load_transposed(const A* from, int64_t stride, Words (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = load_halves(from + i * stride, from + (i + 4) * stride);
    rows[i + 4] = load_halves(from + i * stride + 4, from + (i + 4) * stride + 4);
  }
  transpose_words<2>(rows);
}

#else

// Loads a vector of a row, widened to float.
template <typename A>
Words load_words(const A* from) {
  if constexpr (std::is_same_v<A, float>) {
    return reinterpret_cast<Words>(*reinterpret_cast<const Floats*>(from));
  } else {
    alignas(64) float line[kLanes];
    for (int64_t c = 0; c < kLanes; ++c) line[c] = load(from[c]);
    return reinterpret_cast<Words>(*reinterpret_cast<const Floats*>(line));
  }
}

template <typename A>
void load_transposed(const A* from, int64_t stride, Words (&rows)[kLanes]) {
  for (int64_t i = 0; i < kLanes; ++i) rows[i] = load_words(from + i * stride);
  transpose_words(rows);
}

#endif

// Transposes one square, from rows `stride` apart to rows `to_stride` apart.
template <typename A>
void transpose_square(const A* from, int64_t stride, float* to, int64_t to_stride) {
  Words rows[kLanes];
  load_transposed(from, stride, rows);
  for (int64_t i = 0; i < kLanes; ++i)
    *reinterpret_cast<Floats*>(to + i * to_stride) = reinterpret_cast<Floats>(rows[i]);
}

// Computes to[c][i] = from[i][c], in whole squares where they fit and one by one elsewhere.
template <typename A>
void transpose(const A* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  const int64_t squares_down = rows / kLanes * kLanes, squares_across = columns / kLanes * kLanes;
  for (int64_t i = 0; i < squares_down; i += kLanes)
    for (int64_t c = 0; c < squares_across; c += kLanes)
      transpose_square(from + i * stride + c, stride, to + c * to_stride + i, to_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = i < squares_down ? squares_across : 0; c < columns; ++c)
      to[c * to_stride + i] = load(from[i * stride + c]);
}

}  // namespace recollect::cpu
