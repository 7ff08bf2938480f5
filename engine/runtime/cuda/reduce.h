// Reductions over the threads of a warp or a block, in a fixed order; every thread gets the same bits.
#pragma once

#include "engine/runtime/cuda/launch.h"

namespace recollect::cuda {

struct Sum {
  template <typename T>
  static __device__ T combine(T a, T b) {
    return a + b;
  }
};
struct Max {
  static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};
struct Min {
  static __device__ int64_t combine(int64_t a, int64_t b) { return a < b ? a : b; }
};

// Reduces over groups of `lanes` neighbouring threads (a power of two). Each step exchanges values at half
// the distance of the step before, so that after log2(lanes) steps every thread has the result.
template <typename Operator, typename T>
__device__ T reduce_warp(T x, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    x = Operator::combine(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}

// Reduces over a one-dimensional block; all its threads call it. Each warp reduces its own values; then each
// warp reduces the results of all warps. `nothing` is the neutral element.
template <typename Operator, typename T>
__device__ T reduce_block(T x, T nothing) {
  RECOLLECT_SHARED(of_warps, T[kWarp]);
  x = reduce_warp<Operator>(x);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();  // all threads have read the last reduction's results
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return reduce_warp<Operator>(lane < static_cast<int>(blockDim.x / kWarp) ? of_warps[lane] : nothing);
}

// Adds up `sums` over threadIdx.y; the threads with threadIdx.y = 0 get the result. All threads of the block
// call it. `scratch` holds kCount floats for every other thread.
template <int kCount>
__device__ void sum_over_rows(float* sums, float* scratch) {
  const int lane = threadIdx.x, lanes = blockDim.x, rows = blockDim.y;
  __syncthreads();
  if (threadIdx.y > 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scratch[((threadIdx.y - 1) * kCount + i) * lanes + lane] = sums[i];
  }
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int row = 0; row < rows - 1; ++row) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += scratch[(row * kCount + i) * lanes + lane];
  }
}

}  // namespace recollect::cuda
