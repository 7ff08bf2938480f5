// Small f32 matrix products of one thread, for operands that lie in its caches: register blocks of up to 6
// rows by 64 columns, in the compiler's own vector types (any instruction set).
#pragma once

#include <algorithm>
#include <cstdint>

namespace recollect::cpu {

inline constexpr int64_t kVector = 16;  // floats
inline constexpr int64_t kPanel = 64;   // columns of a register block

namespace tile {

using Floats = float __attribute__((vector_size(kVector * sizeof(float)), aligned(4), may_alias));

// C[rows, 16 * vectors] (+)= A B, with A's element (i, k) at a[i * a_row + k * a_column].
template <int rows, int vectors>
void block(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,
           float* c, int64_t c_row, bool add) {
  Floats sum[rows][vectors];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = add ? *reinterpret_cast<const Floats*>(c + i * c_row + j * kVector) : Floats{};
  for (int64_t k = 0; k < depth; ++k) {
    Floats right[vectors];
    for (int j = 0; j < vectors; ++j)
      right[j] = *reinterpret_cast<const Floats*>(b + k * b_row + j * kVector);
    for (int i = 0; i < rows; ++i) {
      const float left = a[i * a_row + k * a_column];
      for (int j = 0; j < vectors; ++j) sum[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vectors; ++j) *reinterpret_cast<Floats*>(c + i * c_row + j * kVector) = sum[i][j];
}

template <int vectors>
void panel(int64_t rows, int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b,
           int64_t b_row, float* c, int64_t c_row, bool add) {
  constexpr int kRows = 6;
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows)
    block<kRows, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
  for (; i + 2 <= rows; i += 2)
    block<2, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
  if (i < rows) block<1, vectors>(depth, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
}

}  // namespace tile

// C[rows, columns] (+)= A B; `columns` is a multiple of kVector. A may be strided both ways, so also
// transposed.
inline void tile_product(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row,
                         int64_t a_column, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  constexpr int64_t kDepth = 128;  // a panel of B this deep stays in the first-level cache
  for (int64_t k = 0; k < depth; k += kDepth) {
    const int64_t deep = std::min(kDepth, depth - k);
    const float* left = a + k * a_column;
    for (int64_t j = 0; j < columns; j += kPanel) {
      const float* right = b + k * b_row + j;
      switch (std::min(kPanel, columns - j) / kVector) {
        case 4:
          tile::panel<4>(rows, deep, left, a_row, a_column, right, b_row, c + j, c_row, add || k > 0);
          break;
        case 3:
          tile::panel<3>(rows, deep, left, a_row, a_column, right, b_row, c + j, c_row, add || k > 0);
          break;
        case 2:
          tile::panel<2>(rows, deep, left, a_row, a_column, right, b_row, c + j, c_row, add || k > 0);
          break;
        default:
          tile::panel<1>(rows, deep, left, a_row, a_column, right, b_row, c + j, c_row, add || k > 0);
          break;
      }
    }
  }
}

}  // namespace recollect::cpu
