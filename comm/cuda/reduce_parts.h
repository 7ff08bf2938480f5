// Elementwise reduction on a device. Where the CUDA backend is built only.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace recollect::cuda {

inline constexpr int kMostParts = 64;

// As reduce_parts() of comm/reduction.h, with the same bits (of a NaN: some NaN), enqueued on a cudaStream_t.
void reduce_parts(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements,
                  void* stream);

}  // namespace recollect::cuda
