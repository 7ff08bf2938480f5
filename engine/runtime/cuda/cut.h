// How GPU work is divided into pieces. The numbers are the same for every device: a kernel's memory follows
// from them and is predicted on machines that have neither a device nor CUDA.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"

namespace recollect::cuda {

inline constexpr int kWarp = 32;

// The number of multiprocessors for which work is divided: Hopper's, on every device, because the order of
// sums must not depend on the device.
inline constexpr int64_t kMultiprocessors = 132;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns how many elements of a row are read at once: 16 bytes if `width` is a multiple of that, else 1
// element.
inline int row_vector(DType dtype, int64_t width) {
  const int vector = static_cast<int>(16 / size_of(dtype));
  return width % vector == 0 ? vector : 1;
}

}  // namespace recollect::cuda
