// Elementwise reduction on a device. Only builds with the CUDA backend have it.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace recollect::cuda {

inline constexpr int kMostParts = 64;

// Like reduce_parts() of comm/reduction.h, with the same bits (only the bits of a NaN may differ), enqueued
// on a cudaStream_t.
void reduce_parts(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements,
                  void* stream);

}  // namespace recollect::cuda
