// Small f32 matrix products of one thread, for operands that lie in its caches: blocks of sums that fill three quarters of the
// registers, in the compiler's own vector types (any instruction set).
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/ops/cpu/lanes.h"

namespace recollect::cpu {

inline constexpr int64_t kVector = 16;  // floats to multiples of which rows are padded
inline constexpr int64_t kPanel = 64;   // columns of a panel

namespace tile {

constexpr int kRows = 6, kVectors = kLanes == 16 ? 4 : 2;  // of a block of sums
static_assert(kPanel % (kVectors * kLanes) == 0 && kVector % kLanes == 0);

// C[rows, vectors * kLanes] (+)= A B, with A's element (i, k) at a[i * a_row + k * a_column].
template <int rows, int vectors>
void block(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,
           float* c, int64_t c_row, bool add) {
  Floats sum[rows][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = add ? *reinterpret_cast<const Floats*>(c + i * c_row + j * kLanes) : Floats{};
  for (int64_t k = 0; k < depth; ++k) {
    Floats right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) right[j] = *reinterpret_cast<const Floats*>(b + k * b_row + j * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const float left = a[i * a_row + k * a_column];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) *reinterpret_cast<Floats*>(c + i * c_row + j * kLanes) = sum[i][j];
}

// As many columns as `vectors` vectors have.
template <int vectors>
void stripe(int64_t rows, int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b,
            int64_t b_row, float* c, int64_t c_row, bool add) {
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows)
    block<kRows, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
  for (; i + 2 <= rows; i += 2)
    block<2, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
  if (i < rows) block<1, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
}

// With as few vectors, `vectors` at most, as hold `columns`.
template <int vectors, typename... Rest>
void as_wide(int64_t columns, Rest... rest) {
  if constexpr (vectors > 1)
    if (columns <= (vectors - 1) * kLanes) return as_wide<vectors - 1>(columns, rest...);
  stripe<vectors>(rest...);
}

}  // namespace tile

// C[rows, columns] (+)= A B; `columns` is a multiple of kVector. A may be strided both ways, so also
// transposed.
inline void tile_product(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row,
                         int64_t a_column, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  constexpr int64_t kDepth = 128;  // a panel of B this deep stays in the first-level cache
  for (int64_t k = 0; k < depth; k += kDepth)
    for (int64_t j = 0; j < columns; j += tile::kVectors * kLanes)
      tile::as_wide<tile::kVectors>(columns - j, rows, std::min(kDepth, depth - k), a + k * a_column, a_row,
                                    a_column, b + k * b_row + j, b_row, c + j, c_row, add || k > 0);
}

}  // namespace recollect::cpu
