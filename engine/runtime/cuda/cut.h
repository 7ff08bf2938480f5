// Into how many pieces work on a GPU is cut. Plain numbers, the same for every device: what a kernel needs of memory follows from
// them, and is asked where there is neither a device nor CUDA.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"

namespace recollect::cuda {

inline constexpr int kWarp = 32;

// How many multiprocessors the work is cut for: Hopper's, on every device, since the order of sums must not
// depend on it.
inline constexpr int64_t kMultiprocessors = 132;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many elements of rows of `width` are read at once: 16 bytes where every row is whole vectors of that, else 1.
inline int row_vector(DType dtype, int64_t width) {
  const int vector = static_cast<int>(16 / size_of(dtype));
  return width % vector == 0 ? vector : 1;
}

}  // namespace recollect::cuda
