// Column sums of a matrix that is produced row by row. The rows are divided into parts by their number alone.
// Each part has its own sum, made in blocks so that float rounding stays small; the parts' sums are then
// added in order. So neither the bits nor the workspace depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/cpu/element.h"

namespace recollect::cpu {

class ColumnSums {
 public:
  ColumnSums(int threads, int64_t rows, int64_t columns)
      : threads_(threads), rows_(rows), columns_(columns), stride_((columns + 15) / 16 * 16) {
    const int64_t grains = (rows + kGrain - 1) / kGrain;
    part_rows_ = std::max<int64_t>(1, (grains + kMostParts - 1) / kMostParts) * kGrain;
    parts_ = (rows + part_rows_ - 1) / part_rows_;
  }

  std::size_t workspace_bytes() const { return sizeof(float) * parts_ * part_stride(); }

  // Calls row(r, block) for every row r: it adds row r's values into block[0, columns). Then the sums
  // overwrite, or are added into, `out`.
  template <typename Row>
  void run(std::byte* workspace, float* out, bool accumulate, Row row) const {
    float* partials = reinterpret_cast<float*>(workspace);
    parallel_ranges(threads_, parts_, [&](int64_t first, int64_t last, int) {
      for (int64_t part = first; part < last; ++part)
        sum_part(part * part_rows_, std::min((part + 1) * part_rows_, rows_), partials + part * part_stride(),
                 row);
    });
    parallel_grains(threads_, columns_, kColumns, [&](int64_t first, int64_t last, int) {
      for (int64_t c = first; c < last; c += kColumns)
        deliver(partials + c, std::min(kColumns, last - c), out + c, accumulate);
    });
  }

 private:
  static constexpr int64_t kGrain = 32;      // fewest rows of a part
  static constexpr int64_t kMostParts = 64;  // enough work for that many threads
  static constexpr int64_t kBlock = 64;      // rows added up at a time
  static constexpr int64_t kColumns = 256;

  // A part with more rows than a block has a second row of sums, for the current block.
  int64_t part_stride() const { return part_rows_ > kBlock ? 2 * stride_ : stride_; }

  template <typename Row>
  void sum_part(int64_t first, int64_t last, float* total, Row row) const {
    std::fill_n(total, part_stride(), 0.0f);
    if (part_rows_ <= kBlock) {
      for (int64_t r = first; r < last; ++r) row(r, total);
      return;
    }
    float* block = total + stride_;
    for (int64_t r = first; r < last; r += kBlock) {
      for (int64_t i = r; i < std::min(r + kBlock, last); ++i) row(i, block);
#pragma omp simd
      for (int64_t c = 0; c < columns_; ++c) {
        total[c] += block[c];
        block[c] = 0.0f;
      }
    }
  }

  void deliver(const float* partials, int64_t columns, float* out, bool accumulate) const {
    float sums[kColumns] = {};
    for (int64_t part = 0; part < parts_; ++part)
#pragma omp simd
      for (int64_t c = 0; c < columns; ++c) sums[c] += partials[part * part_stride() + c];
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) out[c] = accumulate ? out[c] + sums[c] : sums[c];
  }

  int threads_;
  int64_t rows_, columns_, stride_, part_rows_ = 0, parts_ = 0;
};

}  // namespace recollect::cpu
