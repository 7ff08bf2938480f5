// What attention's forward and backward kernels share: tiles.
//
// A block of 16 x 16 threads has a tile of 16 * kMicro queries and one of as many keys in shared memory.
// Thread (x, y) of the block has rows y, y + 16, ... and columns x, x + 16, ... of whatever the block makes:
// of scores, so that a Philox block's four words fall to one thread; of outputs, of which there are kColumns.
// Memory grows with s, never with s * s; every number is made by one thread or a group of 16 in a fixed
// order.
#pragma once

#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/cuda/attention_workspace.h"
#include "engine/ops/cuda/dropout_mask.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

inline constexpr int kSide = 16, kTileThreads = kSide * kSide;

// Which tokens of a sample meet which, where it is several sequences: a tile of tokens meets the tiles from
// the one in which the sequence of its first token begins to the one in which that of its last token ends.
// Tiles lie where they would in one sequence, so that dropout's words are read in whole blocks.
struct TokenSegments {
  const int32_t* positions;  // of the sample; null: it is one sequence

  __device__ TokenSegments(const int32_t* of_samples, int64_t sample, int64_t length)
      : positions(of_samples ? of_samples + sample * length : nullptr) {}

  __device__ int64_t begin(int64_t token) const { return segment_begin(positions, token); }
  __device__ int64_t first_tile(int64_t token, int64_t tile) const {
    const int64_t first = begin(token);
    return first < 0 ? token : first / tile * tile;
  }
  // Whether everything from `token` on belongs to later sequences than `last` does.
  __device__ bool ends_before(int64_t token, int64_t last) const {
    return positions && token > last && (begin(last) < 0 || begin(token) != begin(last));
  }
  // What a query's keys begin with; no key does where it is padding.
  __device__ int64_t of_query(int64_t query) const {
    const int64_t first = begin(query);
    return first < 0 ? -2 : first;
  }
};

template <int kMicroRows, int kColumnsOfThread>
struct Tiling {
  static constexpr int kMicro = kMicroRows, kColumns = kColumnsOfThread;
  static constexpr int kTile = kSide * kMicro;          // queries, keys
  static constexpr int kStride = kSide * kColumns + 1;  // of rows; odd, so that 16 rows lie in 16 banks
  static constexpr int kScoreStride = kTile + 1;
  static constexpr int kBlocks = kColumns <= 4 ? 2 : 1;  // at a time on a multiprocessor
  static constexpr int kRowsFloats = kTile * kStride, kScoreFloats = kTile * kScoreStride;

  // Rows of a tile from memory, in float; zeros from `rows` and `columns` on. By all threads of the block.
  template <typename A>
  static __device__ void load_rows(const A* from, int64_t from_row, int64_t rows, int64_t columns,
                                   float scale, float* to) {
    const int thread = threadIdx.y * kSide + threadIdx.x;
    for (int row = thread / kWarp; row < kTile; row += kTileThreads / kWarp)
      for (int c = thread % kWarp; c < kSide * kColumns; c += kWarp)
        to[row * kStride + c] =
            row < rows && c < columns ? scale * load_one(from + row * from_row + c) : 0.0f;
  }

  // out[i][j] = the product of row y + 16 i of `a` and row x + 16 j of `b`.
  static __device__ void multiply(const float* a, const float* b, int64_t size,
                                  float (&out)[kMicro][kMicro]) {
#pragma unroll
    for (int i = 0; i < kMicro; ++i)
#pragma unroll
      for (int j = 0; j < kMicro; ++j) out[i][j] = 0.0f;
    for (int c = 0; c < size; ++c) {
      float left[kMicro], right[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) left[i] = a[(threadIdx.y + kSide * i) * kStride + c];
#pragma unroll
      for (int j = 0; j < kMicro; ++j) right[j] = b[(threadIdx.x + kSide * j) * kStride + c];
#pragma unroll
      for (int i = 0; i < kMicro; ++i)
#pragma unroll
        for (int j = 0; j < kMicro; ++j) out[i][j] += left[i] * right[j];
    }
  }

  // Takes this thread's scores of other sequences' keys out. `rows` and `keys` are left in the sample.
  static __device__ void hide_others(const TokenSegments& segments, int64_t first_query, int64_t first_key,
                                     int64_t rows, int64_t keys, float (&scores)[kMicro][kMicro]) {
    int64_t begins[kMicro];
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      const int key = threadIdx.x + kSide * j;
      begins[j] = key < keys ? segments.begin(first_key + key) : -1;
    }
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
      const int row = threadIdx.y + kSide * i;
      const int64_t own = row < rows ? segments.of_query(first_query + row) : -2;
#pragma unroll
      for (int j = 0; j < kMicro; ++j)
        if (begins[j] != own) scores[i][j] = -INFINITY;
    }
  }

  // out[i][j] += the sum over t of factor(y + 16 i, t) * rows[t][x + 16 j].
  // factor(r, t) is scores[r * by_row + t * by_term].
  static __device__ void accumulate(const float* scores, int by_row, int by_term, const float* rows,
                                    float (&out)[kMicro][kColumns]) {
    for (int t = 0; t < kTile; ++t) {
      float left[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) left[i] = scores[(threadIdx.y + kSide * i) * by_row + t * by_term];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float right = rows[t * kStride + threadIdx.x + kSide * j];
#pragma unroll
        for (int i = 0; i < kMicro; ++i) out[i][j] += left[i] * right;
      }
    }
  }

  // This thread's numbers of a tile to memory.
  template <typename A>
  static __device__ void store_rows(const float (&values)[kMicro][kColumns], const float (&scale)[kMicro],
                                    A* to, int64_t to_row, int64_t rows, int64_t columns) {
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
      const int row = threadIdx.y + kSide * i;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int c = threadIdx.x + kSide * j;
        if (row < rows && c < columns) store_one(to + row * to_row + c, values[i][j] * scale[i]);
      }
    }
  }

  // Bit j: is key x + 16 j of a tile kept? `index` is that of the tile's first key.
  static __device__ uint32_t kept(const DropoutMask& mask, uint64_t index) {
    if (!mask.active()) return ~0u;
    if (kMicro == 4 && index % 64 == 0) return mask.keeps_of_block(index / 64 * 16 + threadIdx.x);
    uint32_t bits = 0;
#pragma unroll 1
    for (int j = 0; j < kMicro; ++j)
      bits |= static_cast<uint32_t>(mask.keeps(index + threadIdx.x + kSide * j)) << j;
    return bits;
  }
};

// Calls f<A, Tiling>() for the dtype and the head size.
template <typename F>
auto with_tiling(const OpView& view, DType dtype, const char* kind, F f) {
  const int64_t size = view.attributes().integer("head_size");
  check_tiled_head(size, kind);
  return with_activation_type(dtype, kind, [&]<typename A>() {
    if (size <= 32) return f.template operator()<A, Tiling<4, 2>>();
    if (size <= 64) return f.template operator()<A, Tiling<4, 4>>();
    if (size <= 128) return f.template operator()<A, Tiling<4, 8>>();
    static_assert(kLargestTiledHead == 256);
    return f.template operator()<A, Tiling<2, 16>>();
  });
}

}  // namespace recollect::cuda
