// Blocks of 48 x 48 sums of products in the compiler's own vector types, for any instruction set. Operands
// are packed as f32, whatever they are in memory: 48 lines of every depth beside each other, or, for rows of
// A that lie so in memory, 32 depths of every line.
//
// A block is worked on in tiles, whose sums fill the processor's registers: every number loaded is used as
// often as can be, since a core may load less in a cycle than it may multiply. Of a block at the edge of C
// only the tiles that C has are worked on, in whole rows of tiles and whole vectors.
//
// Sums of kSlice products are made from zero and then added up, on every processor alike: short chains round
// less than one long one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/lanes.h"
#include "engine/ops/cpu/transpose.h"

namespace recollect::cpu {

template <typename A>
struct VectorProduct {
  using Element = A;
  using Packed = float;
  struct Registers {};

  static constexpr int64_t kBlock = 48, kDepthStep = 32;
  static constexpr int64_t kStrip = 1;    // blocks side by side in a strip
  static constexpr int64_t kSlice = 256;  // depth of a strip that is packed at a time
  static constexpr int64_t kShallowest = kSlice, kDeepest = 1024;  // of one pass
  static constexpr int64_t kResidentBytes = 1 << 20;               // in the second-level cache
  static constexpr int64_t kMostSummed = 480;  // resident lines where sums wait for a slice
  static constexpr bool kFetches = true;       // the next slice and sums from memory

  // Of 32 registers 24 are for sums; of 16, 12. Without fused products one of the 16 is for a product: there are two vectors.
  static constexpr int kRows = kLanes == 16 ? 8 : kLanes == 8 ? 4 : 6, kVectors = kLanes == 4 ? 2 : 3;
  static constexpr int64_t kSteps = 4;
  static constexpr int kRowsFetched = 2;  // of sums, with each kDepthStep
  static_assert(kBlock % kRows == 0 && kBlock % (kVectors * kLanes) == 0);
  static constexpr int64_t kRowStep = kRows, kColumnStep = kLanes;  // of what a block at the edge writes

  static void pack(const A* from, int64_t stride, bool strided, bool left, int64_t lines, int64_t depth,
                   float* to) {
    for (int64_t k = 0; k < depth; k += kDepthStep, to += kBlock * kDepthStep) {
      const int64_t deep = std::min(kDepthStep, depth - k), wide = std::min(kBlock, lines);
      if (deep < kDepthStep || wide % kLanes || wide % kRows) std::fill_n(to, kBlock * kDepthStep, 0.0f);
      if (strided && left)
        copy_by_tiles(from + k * stride, stride, deep, wide, to);
      else if (strided)
        copy<kBlock>(from + k * stride, stride, deep, wide, to);
      else if (left)
        copy<kDepthStep>(from + k, stride, wide, deep, to);
      else
        transpose(from + k, stride, wide, deep, to, kBlock);
    }
  }

  // to = from + left right, where `from` may be null for zeros; the first `rows` and `columns` of it. Tiles below each other
  // come one after the other: their part of `right` fits the first-level cache, which all of a block does not everywhere.
  static void multiply(const float* left, bool left_strided, const float* right, int64_t depth, int64_t rows,
                       int64_t columns, const float* from, int64_t from_stride, float* to,
                       int64_t to_stride) {
    for (int64_t j = 0; j < columns; j += kVectors * kLanes)
      for (int64_t i = 0; i < rows; i += kRows) {
        const Tile tile{.left = left + i * kDepthStep,
                        .right = right + j,
                        .depth = depth,
                        .from = from ? from + i * from_stride + j : nullptr,
                        .from_stride = from_stride,
                        .to = to + i * to_stride + j,
                        .to_stride = to_stride};
        if (left_strided)
          as_wide<1, kRows, kVectors>(tile, columns - j);
        else
          as_wide<kDepthStep, 1, kVectors>(tile, columns - j);
      }
  }

 private:
  // Rows of up to `width` elements, that far apart.
  template <int64_t width>
  static void copy(const A* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
    if (columns == width) {
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) to[i * width + c] = load(from[i * stride + c]);
    } else {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < columns; ++c) to[i * width + c] = load(from[i * stride + c]);
    }
  }

  // The rows of every tile by themselves.
  static void copy_by_tiles(const A* from, int64_t stride, int64_t depth, int64_t lines, float* to) {
    const int64_t in_tiles = lines / kRows * kRows;
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < in_tiles; i += kRows) {
        const A* lines_of_tile = from + k * stride + i;
        float* packed = to + i * kDepthStep + k * kRows;
        if constexpr (std::is_same_v<A, float>)
          std::copy_n(lines_of_tile, kRows, packed);
        else
          for (int64_t r = 0; r < kRows; ++r) packed[r] = load(lines_of_tile[r]);
      }
      for (int64_t i = in_tiles; i < lines; ++i)
        to[in_tiles * kDepthStep + k * kRows + i - in_tiles] = load(from[k * stride + i]);
    }
  }

  struct Tile {
    const float *left, *right;
    int64_t depth;
    const float* from;
    int64_t from_stride;
    float* to;
    int64_t to_stride;
  };

  // With as few vectors, `vectors` at most, as hold `columns`.
  template <int line, int step, int vectors>
  static void as_wide(const Tile& tile, int64_t columns) {
    if constexpr (vectors > 1)
      if (columns <= (vectors - 1) * kLanes) return as_wide<line, step, vectors - 1>(tile, columns);
    multiply<line, step, vectors>(tile);
  }

  // kRows rows by that many vectors. Element (i, k) of a chunk of kDepthStep depths: left[i * line + k *
  // step].
  template <int line, int step, int vectors>
  [[gnu::noinline]] static void multiply(const Tile& tile) {
    auto [left, right, depth, from, from_stride, to, to_stride] = tile;
    Floats sum[kRows][vectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; ++j) sum[i][j] = Floats{};
    const float* sums = to;
    for (int64_t chunk = 0; chunk < depth; chunk += kDepthStep, left += kBlock * kDepthStep) {
      for (int i = 0; i < kRowsFetched && sums < to + kRows * to_stride; ++i, sums += to_stride)
        for (int j = 0; j < vectors; ++j) __builtin_prefetch(sums + j * kLanes, 1);
      for (int64_t k = 0; k < kDepthStep; k += kSteps, right += kSteps * kBlock)
#pragma GCC unroll 4
        for (int64_t s = 0; s < kSteps; ++s) {
          Floats b[vectors];
#pragma GCC unroll 3
          for (int j = 0; j < vectors; ++j)
            b[j] = *reinterpret_cast<const Floats*>(right + s * kBlock + j * kLanes);
#pragma GCC unroll 8
          for (int i = 0; i < kRows; ++i) {
            const float a = left[i * line + (k + s) * step];
#pragma GCC unroll 3
            for (int j = 0; j < vectors; ++j) sum[i][j] += a * b[j];
          }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i, from = from ? from + from_stride : nullptr, to += to_stride)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; ++j) {
        if (from) sum[i][j] += *reinterpret_cast<const Floats*>(from + j * kLanes);
        *reinterpret_cast<Floats*>(to + j * kLanes) = sum[i][j];
      }
  }
};

}  // namespace recollect::cpu
