// Column sums of a matrix that is produced row by row. Every thread adds its rows into a partial sum of its
// own, in blocks so that float rounding stays small; the partials are then added in thread order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/cpu/element.h"

namespace recollect::cpu {

class ColumnSums {
 public:
  ColumnSums(int threads, int64_t columns)
      : threads_(threads), columns_(columns), stride_((columns + 15) / 16 * 16) {}

  std::size_t workspace_bytes() const { return sizeof(float) * stride_ * (2 * threads_); }

  // Calls row(r, block) for every r of [0, rows): it adds row r's values into block[0, columns). Then the
  // sums overwrite, or are added into, `out`.
  template <typename Row>
  void run(int64_t rows, std::byte* workspace, float* out, bool accumulate, Row row) const {
    float* partials = reinterpret_cast<float*>(workspace);
    std::fill_n(partials, 2 * threads_ * stride_, 0.0f);
    parallel_ranges(threads_, rows, [&](int64_t first, int64_t last, int part) {
      float* total = partials + 2 * part * stride_;
      float* block = total + stride_;
      for (int64_t r = first; r < last; r += kBlock) {
        for (int64_t i = r; i < std::min(r + kBlock, last); ++i) row(i, block);
#pragma omp simd
        for (int64_t c = 0; c < columns_; ++c) {
          total[c] += block[c];
          block[c] = 0.0f;
        }
      }
    });
    for (int64_t c = 0; c < columns_; ++c) {
      float sum = 0.0f;
      for (int part = 0; part < threads_; ++part) sum += partials[2 * part * stride_ + c];
      out[c] = accumulate ? out[c] + sum : sum;
    }
  }

 private:
  static constexpr int64_t kBlock = 64;
  int threads_;
  int64_t columns_, stride_;
};

}  // namespace recollect::cpu
