#include "engine/ops/cuda/attention_padding.h"

#include "engine/runtime/cuda/launch.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 128;

__global__ void fill_lengths(int64_t samples, int32_t length, int32_t* out) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < samples) out[i] = length;
}

// A block has the row of a token.
__global__ void clear_rows(const AttentionShape shape, const int32_t* lengths, uint16_t* gradients) {
  const int64_t token = blockIdx.x;
  if (token % shape.length < lengths[token / shape.length]) return;
  uint16_t* row = gradients + token * shape.kv_row + shape.first_key;
  for (int64_t c = threadIdx.x; c < 2 * shape.kv_heads * shape.head_size; c += kThreads) row[c] = 0;
}

}  // namespace

void write_query_lengths(int64_t samples, int64_t length, int32_t* out, void* stream) {
  launch(fill_lengths, grid_of(ceil_div(samples, kThreads)), dim3(kThreads), 0, stream, samples,
         static_cast<int32_t>(length), out);
}

void clear_unseen_keys(const AttentionShape& shape, const int32_t* lengths, const Tensor& gradients,
                       void* stream) {
  require(size_of(gradients.dtype) == sizeof(uint16_t), "cuDNN's attention is of 16 bits");
  launch(clear_rows, grid_of(shape.samples * shape.length), dim3(kThreads), 0, stream, shape, lengths,
         static_cast<uint16_t*>(gradients.data));
}

}  // namespace recollect::cuda
