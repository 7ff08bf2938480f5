#include "engine/ops/cuda/cudnn_seeds.h"

#include "engine/runtime/cuda/check.h"

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
  write_seeds<<<1, 128, 0, static_cast<cudaStream_t>(stream)>>>(state, site, chunks, out);
  check(cudaGetLastError(), "writing the seeds of attention's dropout");
}

}  // namespace recollect::cuda
