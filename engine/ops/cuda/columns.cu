#include "engine/ops/cuda/columns.h"

namespace recollect::cuda {

namespace {

constexpr int kRows = 16;

// Adds the blocks' partial sums of each column. A block has kWarp columns; its kRows rows of threads divide
// the partials.
__global__ void __launch_bounds__(kWarp* kRows)
    add_partials(const float* partials, int64_t count, int64_t width, float* first, float* second,
                 bool accumulate) {
  RECOLLECT_SHARED(scratch, float[(kRows - 1) * kWarp]);
  float* out = blockIdx.y == 0 ? first : second;
  partials += blockIdx.y * count * width;
  const int64_t column = blockIdx.x * int64_t{kWarp} + threadIdx.x;
  float sum = 0.0f;
  if (column < width)
    for (int64_t p = threadIdx.y; p < count; p += kRows) sum += partials[p * width + column];
  sum_over_rows<1>(&sum, scratch);
  if (threadIdx.y == 0 && column < width) out[column] = accumulate ? out[column] + sum : sum;
}

}  // namespace

void finish_sums(const float* partials, int64_t count, int64_t width, float* out, bool accumulate,
                 void* stream) {
  launch(add_partials, grid_of(ceil_div(width, kWarp)), dim3(kWarp, kRows), 0, stream, partials, count, width,
         out, nullptr, accumulate);
}

void finish_two_sums(const float* partials, int64_t count, int64_t width, float* first, float* second,
                     bool accumulate, void* stream) {
  launch(add_partials, grid_of(ceil_div(width, kWarp), 2), dim3(kWarp, kRows), 0, stream, partials, count,
         width, first, second, accumulate);
}

}  // namespace recollect::cuda
