// A row-major product, read as cuBLAS reads it, against the product itself.
#include "engine/ops/cuda/gemm_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace recollect::cuda {
namespace {

std::vector<int> numbers(int64_t count, int seed) {
  std::vector<int> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<int>((i * 7919 + seed * 104729) % 23) - 11;
  return values;
}

std::vector<int> row_major_product(const GemmShape& s, const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> out(s.m * s.n);
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j)
      for (int64_t l = 0; l < s.k; ++l)
        out[i * s.n + j] +=
            a[s.transpose_a ? l * s.m + i : i * s.k + l] * b[s.transpose_b ? j * s.k + l : l * s.n + j];
  return out;
}

int element(const std::vector<int>& memory, const ColumnMajor& matrix, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  EXPECT_LT(row, matrix.rows);
  EXPECT_LT(column, matrix.columns);
  return memory.at(row + column * matrix.leading);
}

TEST(GemmLayout, IsTheSameProduct) {
  for (int64_t m : {1, 2, 5})
    for (int64_t n : {1, 3, 4})
      for (int64_t k : {1, 2, 7})
        for (bool ta : {false, true})
          for (bool tb : {false, true}) {
            const GemmShape s{.m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb};
            const std::vector<int> a = numbers(m * k, 1), b = numbers(k * n, 2);
            const GemmLayout layout = column_major(s);
            ASSERT_FALSE(layout.out.transposed);
            ASSERT_EQ(layout.out.rows, n);
            std::vector<int> out(m * n);
            for (int64_t row = 0; row < layout.out.rows; ++row)
              for (int64_t column = 0; column < layout.out.columns; ++column)
                for (int64_t l = 0; l < k; ++l)
                  out.at(row + column * layout.out.leading) +=
                      element(b, layout.first, row, l) * element(a, layout.second, l, column);
            EXPECT_EQ(out, row_major_product(s, a, b)) << m << " " << n << " " << k << " " << ta << tb;
          }
}

// A linear layer's three products in the names that cuBLAS's documents use.
TEST(GemmLayout, LinearLayersAreTheUsualOnes) {
  const auto letters = [](const GemmShape& s) {
    const GemmLayout l = column_major(s);
    return std::string(l.first.transposed ? "T" : "N") + (l.second.transposed ? "T" : "N");
  };
  EXPECT_EQ(letters({.m = 8, .n = 4, .k = 2, .transpose_b = true}), "TN");
  EXPECT_EQ(letters({.m = 8, .n = 2, .k = 4}), "NN");
  EXPECT_EQ(letters({.m = 4, .n = 2, .k = 8, .transpose_a = true}), "NT");
}

TEST(GemmLayout, RowsAreAsAlignedAsTheirLength) {
  const auto alignment = [](int64_t leading, std::size_t element) {
    return row_alignment({.rows = leading, .columns = 3, .leading = leading}, element);
  };
  EXPECT_EQ(alignment(768, 2), 16u);
  EXPECT_EQ(alignment(50257, 2), 2u);
  EXPECT_EQ(alignment(50257, 4), 4u);
  EXPECT_EQ(alignment(50258, 2), 4u);
  EXPECT_EQ(alignment(12, 2), 8u);
  EXPECT_EQ(alignment(1, 4), 4u);
}

}  // namespace
}  // namespace recollect::cuda
