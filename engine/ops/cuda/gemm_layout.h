// A row-major product as the column-major one that cuBLAS computes. A row-major matrix [r, c] is the
// column-major matrix c x r with leading dimension c; so out = op(a) op(b) reads out^T = op(b)^T op(a)^T: the
// operands change places, and a matrix that is not transposed here is not transposed there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

// As stored, column-major: `rows` numbers in a column, columns `leading` elements apart.
struct ColumnMajor {
  int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;  // the product takes its transpose
  bool operator==(const ColumnMajor&) const = default;
};

// D [n x m] = op(first) op(second).
struct GemmLayout {
  ColumnMajor first;   // b's memory
  ColumnMajor second;  // a's memory
  ColumnMajor out;
};

constexpr GemmLayout column_major(const GemmShape& s) {
  const auto stored = [](int64_t rows, int64_t columns, bool transposed) {
    // Row-major [rows, columns], or [columns, rows] where it is stored transposed.
    return transposed ? ColumnMajor{rows, columns, rows, true} : ColumnMajor{columns, rows, columns, false};
  };
  return {stored(s.k, s.n, s.transpose_b), stored(s.m, s.k, s.transpose_a), {s.n, s.m, s.n, false}};
}

// What an address is a multiple of wherever a row of the matrix begins, in bytes: at most 16, which is all
// that the kernels for Hopper ask for. The matrix itself begins at least as aligned.
constexpr uint32_t row_alignment(const ColumnMajor& matrix, std::size_t element) {
  const uint64_t bytes = static_cast<uint64_t>(matrix.leading) * element;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes & (~bytes + 1), 16));
}

}  // namespace recollect::cuda
