#include "engine/ops/cuda/cudnn_seeds.h"

#include "engine/runtime/cuda/launch.h"

namespace recollect::cuda {

namespace {

__global__ void write_seeds(const RunState* state, AttentionSite site, int64_t chunks, int64_t* out) {
  for (int64_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    out[2 * i] = static_cast<int64_t>(attention_seed(*state, site, i));
    out[2 * i + 1] = 0;
  }
}

}  // namespace

void write_attention_seeds(const RunState* state, const AttentionSite& site, int64_t chunks, int64_t* out,
                           void* stream) {
  launch(write_seeds, dim3(1), dim3(128), 0, stream, state, site, chunks, out);
}

}  // namespace recollect::cuda
