// Blocks of 48 x 48 sums of bf16 products with the processor's bf16 dot product (AVX512-BF16), which adds two
// products to a sum in one instruction. Both operands are packed in the same way: for every pair of depths,
// 48 lines side by side. This code exists only if the compiler targets the instruction; dots_pay() tells
// whether it is faster than widening to f32.
//
// A block is computed in tiles of 8 rows by 48 columns, whose sums fill 24 registers. Like in VectorProduct,
// sums of kSlice products start from zero and are then added to the total.
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/ops/cpu/depth_pairs.h"

#ifdef RECOLLECT_DOTS

namespace recollect::cpu {

struct DotProduct {
  using Element = bf16;
  using Packed = bf16;
  struct Registers {};

  static constexpr int64_t kBlock = 48, kDepthStep = 32;
  static constexpr int64_t kStrip = 1;    // blocks side by side in a strip
  static constexpr int64_t kSlice = 512;  // depth of a strip that is packed at a time
  static constexpr int64_t kShallowest = kSlice, kDeepest = 1024;  // of one pass
  static constexpr int64_t kResidentBytes = 1 << 20;               // in the second-level cache
  static constexpr int64_t kMostSummed = 480;  // resident lines where sums wait for a slice
  static constexpr bool kFetches = true;       // the next slice and sums from memory

  static constexpr int kLanes = 16, kRows = 8, kVectors = 3;
  static constexpr int kRowsFetched = 2;                            // of sums, with each kDepthStep
  static constexpr int64_t kRowStep = kRows, kColumnStep = kLanes;  // of what a block at the edge writes

  static void pack(const bf16* from, int64_t stride, bool strided, bool, int64_t lines, int64_t depth,
                   bf16* to) {
    for (int64_t k = 0; k < depth; k += kDepthStep, to += kBlock * kDepthStep) {
      if (strided)
        interleave_depths(from + k * stride, stride, depth - k, lines, to);
      else
        for (int64_t line = 0; line < kBlock; line += kLanes)
          transpose_lines(from + k + line * stride, stride, depth - k, lines - line, to + 2 * line);
    }
  }

  // Computes to = from + left right for the first `rows` and `columns`; a null `from` means zeros.
  static void multiply(const bf16* left, bool, const bf16* right, int64_t depth, int64_t rows,
                       int64_t columns, const float* from, int64_t from_stride, float* to,
                       int64_t to_stride) {
    const int64_t pairs = (depth + kDepthStep - 1) / kDepthStep * (kDepthStep / 2);
    for (int64_t i = 0; i < rows; i += kRows) {
      const Tile tile{.left = left + 2 * i,
                      .right = right,
                      .pairs = pairs,
                      .from = from ? from + i * from_stride : nullptr,
                      .from_stride = from_stride,
                      .to = to + i * to_stride,
                      .to_stride = to_stride};
      if (columns > 2 * kLanes)
        multiply<3>(tile);
      else if (columns > kLanes)
        multiply<2>(tile);
      else
        multiply<1>(tile);
    }
  }

 private:
  static constexpr int64_t kPair = 2 * kBlock;  // elements of a pair of depths

  struct Tile {
    const bf16 *left, *right;
    int64_t pairs;
    const float* from;
    int64_t from_stride;
    float* to;
    int64_t to_stride;
  };

  static void transpose_lines(const bf16* from, int64_t stride, int64_t depth, int64_t lines, bf16* to) {
    __m512i rows[kLanes];
    load_rows(from, stride, lines, depth, rows);
    transpose_pairs(rows);
    for (int64_t p = 0; p < kLanes; ++p) _mm512_storeu_si512(to + p * kPair, rows[p]);
  }

  static void interleave_depths(const bf16* from, int64_t stride, int64_t depth, int64_t lines, bf16* to) {
    const __mmask32 near = first_lanes(lines), far = first_lanes(std::min<int64_t>(lines - 32, kLanes));
    for (int64_t k = 0; k < kDepthStep; k += 2, from += 2 * stride, to += kPair) {
      const __mmask32 even = k < depth ? ~__mmask32{0} : 0, odd = k + 1 < depth ? ~__mmask32{0} : 0;
      __m512i low, high, unused;
      interleave(_mm512_maskz_loadu_epi16(near & even, from),
                 _mm512_maskz_loadu_epi16(near & odd, from + stride), low, high);
      _mm512_storeu_si512(to, low);
      _mm512_storeu_si512(to + 32, high);
      interleave(_mm512_maskz_loadu_epi16(far & even, from + 32),
                 _mm512_maskz_loadu_epi16(far & odd, from + stride + 32), low, unused);
      _mm512_storeu_si512(to + 64, low);
    }
  }

  // Computes kRows rows by `vectors` vectors.
  template <int vectors>
  [[gnu::noinline]] static void multiply(const Tile& tile) {
    auto [left, right, pairs, from, from_stride, to, to_stride] = tile;
    __m512 sum[kRows][vectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_setzero_ps();
    const float* sums = to;
    for (int64_t step = 0; step < pairs; step += kDepthStep / 2) {
      for (int i = 0; i < kRowsFetched && sums < to + kRows * to_stride; ++i, sums += to_stride)
        for (int j = 0; j < vectors; ++j) __builtin_prefetch(sums + j * kLanes, 1);
#pragma GCC unroll 2
      for (int64_t p = 0; p < kDepthStep / 2; ++p, left += kPair, right += kPair) {
        __m512bh b[vectors];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; ++j)
          b[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + 2 * j * kLanes));
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          int32_t word;
          std::memcpy(&word, left + 2 * i, sizeof(word));
          const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(word));
#pragma GCC unroll 3
          for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[j]);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i, from = from ? from + from_stride : nullptr, to += to_stride)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; ++j) {
        if (from) sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_loadu_ps(from + j * kLanes));
        _mm512_storeu_ps(to + j * kLanes, sum[i][j]);
      }
  }
};

}  // namespace recollect::cpu

#endif
