// What cuDNN's attention needs beside it where samples have lengths.
#pragma once

#include <cstdint>

#include "engine/core/tensor.h"
#include "engine/ops/attention.h"

namespace recollect::cuda {

// Enqueues: out[i] = length for i < samples. cuDNN asks for the queries' lengths too, and all are computed.
void write_query_lengths(int64_t samples, int64_t length, int32_t* out, void* stream);

// Enqueues: zeros in the gradients of k and v from every sample's length on, which cuDNN need not write.
// `gradients` holds k | v as `shape` says, in 16 bits; `lengths` is the device's.
void clear_unseen_keys(const AttentionShape& shape, const int32_t* lengths, const Tensor& gradients,
                       void* stream);

}  // namespace recollect::cuda
