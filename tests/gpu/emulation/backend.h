// The cuda backend's kernels, compiled for the CPU by the emulation of this folder.
#pragma once

#include "engine/core/tensor.h"
#include "engine/ops/attention.h"
#include "engine/ops/ops.h"

namespace recollect::emulation {

// f32, bf16 and f16. Each kernel is prepared before its first run and asked for its Errors after every run;
// it finds the run's state in "device" memory alone, and its threads go backward in every other run.
void register_kernels(KernelTable& table, VocabularyReduction* vocabulary = nullptr);

// Of engine/runtime/cuda/enqueue.h.
void convert(const Tensor& from, const Tensor& to);
void hash_bytes(const void* data, std::size_t bytes, int64_t* hash);

// Of engine/ops/cuda/attention_padding.h.
void write_query_lengths(int64_t samples, int64_t length, int32_t* out);
void clear_unseen_keys(const AttentionShape& shape, const int32_t* lengths, const Tensor& gradients);

}  // namespace recollect::emulation
