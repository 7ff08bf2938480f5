// What attention's forward and backward kernels share: tiles in shared memory, and products of them in float, without
// tensor cores.
//
// A block holds a tile of rows (queries, or keys where their gradients are made) and goes through tiles of columns. Its 128
// threads are 16 down by 8 across: thread (x, y) makes rows y, y + 16, ... and columns x, x + 8, ... of scores, and features
// 4 x .. 4 x + 3 of every 32 of the outputs. So every operand is read from shared memory 16 bytes at a time, and what one
// warp makes of scores no other warp reads. Memory grows with s, never with s * s; every number is made by one thread or
// eight, in an order that depends on nothing but the shape.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/cuda/attention_workspace.h"
#include "engine/ops/cuda/dropout_mask.h"
#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

inline constexpr int kDown = 16, kAcross = 8, kTileThreads = kDown * kAcross;
inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// Two lanes beside each other share x, and those two apart y: a warp then reads 16 bytes a lane in two passes, not four.
__device__ inline int tile_x() { return static_cast<int>(threadIdx.x >> 1 & 7); }
__device__ inline int tile_y() {
  return static_cast<int>(threadIdx.x / kWarp * 4 + (threadIdx.x >> 3 & 2) + (threadIdx.x & 1));
}

// Of all threads with one y, which are of one warp.
template <typename Operator>
__device__ float reduce_across(float value) {
#pragma unroll
  for (int distance = 2; distance < 16; distance *= 2)
    value = Operator::combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

// Rows of kWidth floats, in pieces of four whose order differs from row to row: eight rows have a piece in all banks.
template <int kWidth>
__device__ int piece_at(int row, int piece) {
  constexpr int kOrders = kWidth >= 32 ? 8 : kWidth / 4;
  return row * kWidth + (piece ^ (row & (kOrders - 1))) * 4;
}

struct alignas(16) Piece {
  float at[4];
};
__device__ inline Piece read_piece(const float* from) {
  const auto four = *reinterpret_cast<const float4*>(from);
  return {four.x, four.y, four.z, four.w};
}

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
    return (first < 0 ? token : first) / tile * tile;
  }
  // Whether everything from `token` on belongs to later sequences than `last` does.
  __device__ bool ends_before(int64_t token, int64_t last) const {
    return positions && token > last && (begin(last) < 0 || begin(token) != begin(last));
  }
};

// Dropout of one unit's probabilities.
class ProbabilityMask {
 public:
  __device__ ProbabilityMask(const AttentionShape& shape, const DropoutSite& site, const RunState* state,
                             int64_t unit)
      : mask_(site, state),
        stride_(static_cast<uint64_t>(state->token_stride)),
        first_(shape.probability_at(*state, unit, 0)),
        whole_(stride_ % 64 == 0) {}

  __device__ void next_unit() { first_ += stride_ * stride_; }

  // f(i, multiplier) of keys `key` + offset + 16 i for i < kCount; `offset` is less than 16, and the tile that `key` begins
  // has 16 * kCount keys.
  template <int kCount, typename F>
  __device__ void sixteen_apart(int query, int key, int offset, F f) const {
    constexpr int kOfBlock = kCount < 4 ? kCount : 4;  // a block of Philox has four such elements
    if (!mask_.active()) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) f(i, 1.0f);
      return;
    }
    const uint64_t index = first_ + query * stride_ + key;
    uint32_t bits = 0;
    if (whole_) {
#pragma unroll
      for (int i = 0; i < kCount; i += kOfBlock) {
        const uint64_t block = (index / 64 + i / 4) * 16 + offset;
        if constexpr (kOfBlock == 4) {
          const auto words = mask_.words(block);
#pragma unroll
          for (int w = 0; w < 4; ++w) f(i + w, mask_.multiplier_of(words[w]));
        } else {
          bits = mask_.keeps_of_block(block) >> (index % 64 / 16);
        }
      }
      if (kOfBlock == 4) return;
    } else {
#pragma unroll 1
      for (int i = 0; i < kCount; ++i)
        bits |= static_cast<uint32_t>(mask_.keeps(index + offset + 16 * i)) << i;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) f(i, mask_.multiplier(bits >> i & 1));
  }

 private:
  DropoutMask mask_;
  uint64_t stride_, first_;  // from one query to the next; of the unit's first
  bool whole_;               // blocks of Philox never begin in the middle of a tile
};

// How many keys from `key` on a query sees; not positive where there are none. And how many of those its window hides. Both as
// in AttentionShape, in 32 bits: the forward kernel has no register left.
__device__ inline int seen_from(const AttentionShape& shape, int query, int keys, int key) {
  const int ahead = shape.causal ? 1 : static_cast<int>(shape.window);
  return std::min(query + ahead, keys) - key;
}
__device__ inline int hidden_from(const AttentionShape& shape, int query, int keys, int key) {
  return std::min(query, keys - 1) - static_cast<int>(shape.window) + 1 - key;
}
// The first tile of keys that a query needs, and so the first for all later queries.
__device__ inline int first_tile_of_keys(const AttentionShape& shape, const TokenSegments& segments,
                                         int query, int keys, int tile) {
  const int of_segment = static_cast<int>(segments.first_tile(query, tile)),
            of_window = static_cast<int>(shape.first_seen(query, keys)) / tile * tile;
  return of_segment > of_window ? of_segment : of_window;
}

// kDownMicro and kAcrossMicro: a thread's rows and columns. kWidth: features of a head, with zeros up to there.
template <int kWidthOfHead, int kDownMicro, int kAcrossMicro>
struct Tiling {
  static constexpr int kWidth = kWidthOfHead, kM = kDownMicro, kN = kAcrossMicro, kOut = kWidth / kAcross;
  static constexpr int kRows = kDown * kM, kColumns = kAcross * kN;
  static constexpr int kRowFloats = kRows * kWidth, kColumnFloats = kColumns * kWidth,
                       kScoreFloats = kRows * kColumns;
  static constexpr int kUnrolled =
      kM * kN < 32 ? 2 : 1;  // where two warps are enough to hide what a load takes
  using Scores = float[kM][kN];
  using Out = float[kM][kOut];

  // kCount rows of memory as floats, of which `rows` are there; zeros from there on. By all threads of the block; where
  // `later`, the copies may still be under way, until the block's next __pipeline_wait_prior and barrier.
  template <bool kLater, int kCount, typename A>
  static __device__ void load_rows(const A* from, int64_t from_row, int64_t rows, int size, float scale,
                                   float* to) {
    constexpr int kPieces = kWidth / 4;
    const bool whole = size % 4 == 0;
#pragma unroll 2
    for (int at = threadIdx.x; at < kCount * kPieces; at += kTileThreads) {
      const int row = at / kPieces, piece = at % kPieces, left = row < rows ? size - 4 * piece : 0;
      const A* source = from + row * from_row + 4 * piece;
      float* place = to + piece_at<kWidth>(row, piece);
      if (kLater && sizeof(A) == 4 && whole && left > 0) {
        RECOLLECT_READS(source, 16);
        __pipeline_memcpy_async(place, source, 16);
        continue;
      }
      Floats<4> x{};
      if (whole && left > 0)
        x = load<4>(source);
      else
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (e < left) x[e] = load_one(source + e);
#pragma unroll
      for (int e = 0; e < 4; ++e) place[e] = x[e] * scale;
    }
  }
  // Of a resident tile, scaled; and of a tile of columns, which the copy engine of the multiprocessor may bring.
  template <typename A>
  static __device__ void hold(const A* from, int64_t from_row, int64_t rows, int64_t size, float scale,
                              float* to) {
    load_rows<false, kRows>(from, from_row, rows, static_cast<int>(size), scale, to);
  }
  template <typename A>
  static __device__ void bring(const A* from, int64_t from_row, int64_t rows, int64_t size, float* to) {
    load_rows<true, kColumns>(from, from_row, rows, static_cast<int>(size), 1.0f, to);
  }

  // out[i][j] = the product of row y + 16 i of `a` and row x + 8 j of `b`.
  static __device__ void multiply(const float* a, const float* b, Scores& out) {
    const int x = tile_x(), y = tile_y();
#pragma unroll
    for (int i = 0; i < kM; ++i)
#pragma unroll
      for (int j = 0; j < kN; ++j) out[i][j] = 0.0f;
#pragma unroll(kUnrolled)
    for (int c = 0; c < kWidth / 4; ++c) {
      const float *lefts = a + piece_at<kWidth>(y, c), *rights = b + piece_at<kWidth>(x, c);
      Piece left[kM];
#pragma unroll
      for (int i = 0; i < kM; ++i) left[i] = read_piece(lefts + kDown * kWidth * i);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const Piece right = read_piece(rights + kAcross * kWidth * j);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int i = 0; i < kM; ++i) out[i][j] += left[i].at[e] * right.at[e];
      }
    }
  }

  // out[i][...] += the sum over t of scores[y + 16 i][t] * rows[t][...].
  static __device__ void accumulate(const float* scores, const float* rows, Out& out) {
    const int x = tile_x(), y = tile_y();
#pragma unroll 1
    for (int t = 0; t < kColumns; t += 8) {
#pragma unroll
      for (int half = 0; half < 8; half += 4) {
        const float* lefts = scores + piece_at<kColumns>(y, (t + half) / 4);
        Piece left[kM];
#pragma unroll
        for (int i = 0; i < kM; ++i) left[i] = read_piece(lefts + kDown * kColumns * i);
#pragma unroll
        for (int e = half; e < half + 4; ++e) {
          const float* rights = rows + t * kWidth + piece_at<kWidth>(e, x);
#pragma unroll
          for (int j = 0; j < kOut; j += 4) {
            const Piece right = read_piece(rights + kAcross * j);
#pragma unroll
            for (int i = 0; i < kM; ++i)
#pragma unroll
              for (int f = 0; f < 4; ++f) out[i][j + f] += left[i].at[e - half] * right.at[f];
          }
        }
      }
    }
  }

  // This thread's scores, where accumulate() finds them once the warp has met.
  static __device__ void put(const Scores& values, float* scores) {
    const int x = tile_x(), y = tile_y();
#pragma unroll
    for (int i = 0; i < kM; ++i)
#pragma unroll
      for (int j = 0; j < kN; ++j)
        scores[kDown * kColumns * i + piece_at<kColumns>(y, x / 4 + 2 * j) + x % 4] = values[i][j];
  }

  // Takes this thread's scores between different sequences out. `rows` and `columns` are left in the sample.
  static __device__ void hide_others(const TokenSegments& segments, int first_row, int first_column, int rows,
                                     int columns, Scores& scores) {
    int begins[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const int column = tile_x() + kAcross * j;
      begins[j] = column < columns ? static_cast<int>(segments.begin(first_column + column)) : -1;
    }
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int row = tile_y() + kDown * i;
      const int own = row < rows ? static_cast<int>(segments.begin(first_row + row)) : -1;
#pragma unroll
      for (int j = 0; j < kN; ++j)
        if (own < 0 || begins[j] != own) scores[i][j] = -INFINITY;
    }
  }

  // Takes out keys that are not seen where rows are queries; nothing is done to a tile of which all is seen.
  static __device__ void hide_unseen_columns(const AttentionShape& shape, int first, int key, int keys,
                                             Scores& scores) {
    if (seen_from(shape, first, keys, key) >=
            kColumns &&  // the first query sees fewest keys, the window of the last one hides most
        hidden_from(shape, first + kRows - 1, keys, key) <= 0)
      return;
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int query = first + tile_y() + kDown * i, seen = seen_from(shape, query, keys, key),
                hidden = hidden_from(shape, query, keys, key);
#pragma unroll
      for (int j = 0; j < kN; ++j)
        if (tile_x() + kAcross * j >= seen || tile_x() + kAcross * j < hidden) scores[i][j] = -INFINITY;
    }
  }
  // The same where rows are keys, and queries from `length` on.
  static __device__ void hide_unseen_rows(const AttentionShape& shape, int query, int key, int keys,
                                          Scores& scores) {
    const int queries = static_cast<int>(shape.length) - query;
    if (queries >= kColumns && seen_from(shape, query, keys, key) >= kRows &&
        hidden_from(shape, query + kColumns - 1, keys, key) <= 0)
      return;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const int column = tile_x() + kAcross * j,
                seen = column < queries ? seen_from(shape, query + column, keys, key) : 0,
                hidden = hidden_from(shape, query + column, keys, key);
#pragma unroll
      for (int i = 0; i < kM; ++i)
        if (tile_y() + kDown * i >= seen || tile_y() + kDown * i < hidden) scores[i][j] = -INFINITY;
    }
  }

  // Caps scores, which are logarithms to base 2; comes before the mask.
  static __device__ void cap_scores(float cap, Scores& scores) {
    if (cap == 0.0f) return;
    const float most = cap * kLog2E, inverse = 1.0f / most;
#pragma unroll
    for (int i = 0; i < kM; ++i)
#pragma unroll
      for (int j = 0; j < kN; ++j) scores[i][j] = most * tanhf(scores[i][j] * inverse);
  }
  // The derivative of the cap, 1 - tanh^2: turns a capped score's gradient into the score's. Zero for a hidden score.
  static __device__ float slope_of_cap(float cap, float score) {
    if (cap == 0.0f) return 1.0f;
    const float tanh = fmaxf(score / (cap * kLog2E), -1.0f);
    return 1.0f - tanh * tanh;
  }

  // This thread's outputs to memory; row y + 16 i times scale[i].
  template <typename A>
  static __device__ void store_rows(const Out& values, const float (&scale)[kM], A* to, int64_t to_row,
                                    int64_t rows, int64_t size) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int row = tile_y() + kDown * i;
      if (row >= rows) continue;
#pragma unroll
      for (int j = 0; j < kOut; j += 4) {
        const int c = 4 * tile_x() + kAcross * j;
        A* place = to + row * to_row + c;
        Floats<4> x;
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = values[i][j + e] * scale[i];
        if (size % 4 == 0) {
          if (c < size) store<4>(place, x);
          continue;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (c + e < size) store_one(place + e, x[e]);
      }
    }
  }

  static __device__ void fill(float value, float (&all)[kM]) {
#pragma unroll
    for (int i = 0; i < kM; ++i) all[i] = value;
  }

  // f(j, multiplier) of a query's keys x + 8 j, or f(i, multiplier) of its keys y + 16 i; `key` is the tile's first.
  template <typename F>
  static __device__ void multiply_columns(const ProbabilityMask& mask, int query, int key, F f) {
    const auto even = [&](int j, float m) { f(2 * j, m); };
    const auto odd = [&](int j, float m) { f(2 * j + 1, m); };
    mask.sixteen_apart<kN / 2>(query, key, tile_x(), even);
    mask.sixteen_apart<kN / 2>(query, key, tile_x() + kAcross, odd);
  }
  template <typename F>
  static __device__ void multiply_rows(const ProbabilityMask& mask, int query, int key, F f) {
    mask.sixteen_apart<kM>(query, key, tile_y(), f);
  }
};

// Tiles of both passes for heads of a width. A block has at most 99 KiB, which all devices have, so that bits depend on
// none; where it can, a thread has 8 x 8 outputs, for which 16 loads feed 256 multiply-adds.
template <int kWidth>
struct Tilings;
template <>
struct Tilings<32> {
  using Forward = Tiling<32, 8, 8>;
  using Backward = Tiling<32, 4, 8>;
};
template <>
struct Tilings<64> {
  using Forward = Tiling<64, 8, 8>;
  using Backward = Tiling<64, 4, 8>;
};
template <>
struct Tilings<128> {
  using Forward = Tiling<128, 4, 4>;
  using Backward = Tiling<128, 2, 4>;
};
template <>
struct Tilings<256> {
  using Forward = Tiling<256, 2, 2>;
  using Backward = Tiling<256, 1, 4>;
};

// Calls f<A, Tilings>() for the dtype and the head size.
template <typename F>
auto with_tiling(const OpView& view, DType dtype, const char* kind, F f) {
  const int64_t size = view.attributes().integer("head_size");
  check_tiled_head(size, kind);
  return with_activation_type(dtype, kind, [&]<typename A>() {
    if (size <= 32) return f.template operator()<A, Tilings<32>>();
    if (size <= 64) return f.template operator()<A, Tilings<64>>();
    if (size <= 128) return f.template operator()<A, Tilings<128>>();
    static_assert(kLargestTiledHead == 256);
    return f.template operator()<A, Tilings<256>>();
  });
}

}  // namespace recollect::cuda
