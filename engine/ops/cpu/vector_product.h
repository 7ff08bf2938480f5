// Blocks of 32 x 32 sums of products in the compiler's own vector types, for any instruction set. Operands
// are packed as f32, whatever they are in memory: 32 lines of every depth beside each other, or, for rows of
// A that lie so in memory, 32 depths of every line.
//
// Sums of kSlice products are made from zero and then added up, on every processor alike: short chains round
// less than one long one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/transpose.h"

namespace recollect::cpu {

template <typename A>
struct VectorProduct {
  using Element = A;
  using Packed = float;
  struct Registers {};

  static constexpr int64_t kBlock = 32, kDepthStep = 32;
  static constexpr int64_t kStrip = 2;                // blocks side by side in a strip
  static constexpr int64_t kSlice = 128;              // depth of a strip in the first-level cache
  static constexpr int64_t kDeepest = 1024;           // of one pass
  static constexpr int64_t kResidentBytes = 1 << 20;  // in the second-level cache
  static constexpr bool kFetches = true;              // the next slice from memory

#ifdef __AVX512F__
  static constexpr int kLanes = 16, kRows = 8;
#else
  static constexpr int kLanes = 8, kRows = 4;
#endif
  static constexpr int kVectors = 2;
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

  static void pack(const A* from, int64_t stride, bool strided, bool left, int64_t lines, int64_t depth,
                   float* to) {
    for (int64_t k = 0; k < depth; k += kDepthStep, to += kBlock * kDepthStep) {
      const int64_t deep = std::min(kDepthStep, depth - k), wide = std::min(kBlock, lines);
      if (deep < kDepthStep || wide < kBlock) std::fill_n(to, kBlock * kDepthStep, 0.0f);
      if (strided)
        copy(from + k * stride, stride, deep, wide, to);
      else if (left)
        copy(from + k, stride, wide, deep, to);
      else
        transpose(from + k, stride, wide, deep, to);
    }
  }

  // to = from + left right, where `from` may be null for zeros.
  static void multiply(const float* left, bool left_strided, const float* right, int64_t depth,
                       const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    const auto rows = [&]<int count>(int64_t i) {
      for (int64_t j = 0; j < kBlock; j += kVectors * kLanes) {
        const float* sums = from ? from + i * from_stride + j : nullptr;
        float* at = to + i * to_stride + j;
        if (left_strided)
          block<count, 1, kBlock>(left + i, right + j, depth, sums, from_stride, at, to_stride);
        else
          block<count, kDepthStep, 1>(left + i * kDepthStep, right + j, depth, sums, from_stride, at,
                                      to_stride);
      }
    };
    int64_t i = 0;
    for (; i + kRows <= kBlock; i += kRows) rows.template operator()<kRows>(i);
    if constexpr (kBlock % kRows != 0) rows.template operator()<kBlock % kRows>(i);
  }

 private:
  static void copy(const A* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
    if (columns == kBlock) {
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t c = 0; c < kBlock; ++c) to[i * kBlock + c] = load(from[i * stride + c]);
    } else {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < columns; ++c) to[i * kBlock + c] = load(from[i * stride + c]);
    }
  }

  // to[c][i] = from[i][c]
  static void transpose(const A* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
    if (rows < kBlock || columns < kBlock) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < columns; ++c) to[c * kBlock + i] = load(from[i * stride + c]);
      return;
    }
    for (int64_t i = 0; i < kBlock; i += kSquare)
      for (int64_t c = 0; c < kBlock; c += kSquare)
        transpose_square(from + i * stride + c, stride, to + c * kBlock + i);
  }

  using Words = uint32_t __attribute__((vector_size(64)));
  using Line = float __attribute__((vector_size(64), aligned(4), may_alias));

  // One square of 16 x 16.
  static void transpose_square(const A* from, int64_t stride, float* to) {
    Words rows[kSquare];
    for (int64_t i = 0; i < kSquare; ++i) {
      if constexpr (std::is_same_v<A, float>) {
        rows[i] = reinterpret_cast<Words>(*reinterpret_cast<const Line*>(from + i * stride));
      } else {
        alignas(64) float line[kSquare];
        for (int64_t c = 0; c < kSquare; ++c) line[c] = load(from[i * stride + c]);
        rows[i] = reinterpret_cast<Words>(*reinterpret_cast<const Line*>(line));
      }
    }
    transpose_words(rows);
    for (int64_t i = 0; i < kSquare; ++i)
      *reinterpret_cast<Line*>(to + i * kBlock) = reinterpret_cast<Line>(rows[i]);
  }
  static constexpr int64_t kSquare = 16;

  // kRows rows by kVectors vectors. Element (i, k) of a chunk of kDepthStep depths: left[i * line + k *
  // step].
  template <int kRows, int line, int step>
  static void block(const float* left, const float* right, int64_t depth, const float* from,
                    int64_t from_stride, float* to, int64_t to_stride) {
    Floats sum[kRows][kVectors] = {};
    for (int64_t chunk = 0; chunk < depth; chunk += kDepthStep) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < kDepthStep; ++k) {
        Floats b[kVectors];
        for (int j = 0; j < kVectors; ++j)
          b[j] = *reinterpret_cast<const Floats*>(right + k * kBlock + j * kLanes);
        for (int i = 0; i < kRows; ++i) {
          const float a = left[i * line + k * step];
          for (int j = 0; j < kVectors; ++j) sum[i][j] += a * b[j];
        }
      }
      left += kBlock * kDepthStep;
      right += kBlock * kDepthStep;
    }
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) {
        if (from) sum[i][j] += *reinterpret_cast<const Floats*>(from + i * from_stride + j * kLanes);
        *reinterpret_cast<Floats*>(to + i * to_stride + j * kLanes) = sum[i][j];
      }
  }
};

}  // namespace recollect::cpu
