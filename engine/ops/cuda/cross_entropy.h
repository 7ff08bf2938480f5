// Cross-entropy of rows of logits, and its gradient in place of the logits. A block handles one row and reads
// it twice: once for the maximum logit and the sum of exponentials, and again for the gradient, from shared
// memory if the row was kept there.
#pragma once

#include <cmath>

#include "engine/core/ignored_label.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

inline constexpr int kLossThreads = 512;
inline constexpr int64_t kNoTarget = -1;
inline constexpr float kLowest = -3e38f;  // less than any logit; e^(kLowest - kLowest) is still a number

struct Targets {
  const int32_t* ids;
  int64_t vocabulary_size;

  __device__ bool valid(int32_t target) const { return target >= 0 && target < vocabulary_size; }
  // Returns the vocabulary entry that `row` predicts, or kNoTarget.
  __device__ int64_t of(int64_t row) const { return valid(ids[row]) ? ids[row] : kNoTarget; }
};

// This rank's shard of the vocabulary.
struct VocabularyPart {
  int64_t first, rows, predicted;  // entries from `predicted` on are padding
  float cap;                       // of logits, applied at every read; 0: no cap
};

__device__ inline float capped(float logit, float cap) {
  return cap > 0.0f ? cap * tanhf(logit / cap) : logit;
}

// One number per row of a chunk. `sum` and `target_logit` are adjacent, so that one reduction sums both.
struct RowStatistics {
  float *own_max, *max, *sum, *target_logit;
};

struct RowNumbers {
  float max, sum;
};

// Computes the maximum of a row's logits and the sum of exp(logit - maximum) in one pass (online softmax):
// when a thread finds a larger logit, it rescales its sum. With kKeeps the row is stored in `kept` as whole
// vectors; only the thread that stored them reads them again.
template <typename A, int N, bool kKeeps = false>
__device__ RowNumbers row_numbers(const A* logits, const VocabularyPart& part,
                                  [[maybe_unused]] A* kept = nullptr) {
  const int64_t predicted = part.predicted;
  float max = kLowest, sum = 0.0f;
  for (int64_t c = threadIdx.x * N; c < predicted; c += blockDim.x * N) {
    Floats<N> x = load<N>(logits + c);
    if constexpr (kKeeps) store<N>(kept + c, x);
    if (part.cap > 0.0f)
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = capped(x[i], part.cap);
    float greatest = max;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (c + i >= predicted) x[i] = -INFINITY;
      greatest = fmaxf(greatest, x[i]);
    }
    sum *= __expf(max - greatest);
    max = greatest;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += __expf(x[i] - max);
  }
  const float row_max = reduce_block<Max>(max, kLowest);
  return {row_max, reduce_block<Sum>(sum * __expf(max - row_max), 0.0f)};
}

// Overwrites a row's logits, read from `kept`, with their gradient: scale * (probability - [is the target]) *
// derivative of the cap. It is zero in padding and in rows without a target.
template <typename A, int N>
__device__ void row_gradient(A* logits, const A* kept, const VocabularyPart& part, int64_t target,
                             float log_sum, float scale) {
  for (int64_t c = threadIdx.x * N; c < part.rows; c += blockDim.x * N) {
    Floats<N> x = load<N>(kept + c), out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope = scale;  // times the derivative of the cap, 1 - tanh^2
      if (part.cap > 0.0f) {
        x[i] = capped(x[i], part.cap);
        slope *= 1.0f - x[i] / part.cap * (x[i] / part.cap);
      }
      const float one = part.first + c + i == target ? 1.0f : 0.0f;
      out[i] = target != kNoTarget && c + i < part.predicted ? slope * (__expf(x[i] - log_sum) - one) : 0.0f;
    }
    store<N>(logits + c, out);
  }
}

__device__ inline float loss_of(int64_t target, float log_sum, float target_logit) {
  return target == kNoTarget ? 0.0f : log_sum - target_logit;
}

// Returns the target's logit, or 0 if it is not in this shard. All threads call it, before the logits are
// overwritten.
template <typename A>
__device__ float target_logit(const A* logits, const VocabularyPart& part, int64_t target) {
  const int64_t at = target - part.first;
  return target != kNoTarget && at >= 0 && at < part.predicted ? capped(load_one(logits + at), part.cap)
                                                               : 0.0f;
}

// For a vocabulary that is not sharded: loss and gradient in one kernel. `losses` and `first_row` belong to
// the chunk. With kKeeps the launch has shared memory for one row.
template <typename A, int N, bool kKeeps>
__global__ void __launch_bounds__(kLossThreads)
    losses_and_gradients(A* logits, int64_t first_row, Targets targets, VocabularyPart part,
                         const double* scale, float* losses, bool gradient) {
  A* row = logits + blockIdx.x * part.rows;
  const int64_t target = targets.of(first_row + blockIdx.x);
  const float of_target = target_logit(row, part, target);
  A* kept = row;
  if constexpr (kKeeps) {
    RECOLLECT_DYNAMIC_SHARED(shared, A);
    kept = shared;
  }
  const RowNumbers numbers = row_numbers<A, N, kKeeps>(row, part, kept);
  const float log_sum = numbers.max + logf(numbers.sum);
  if (threadIdx.x == 0) losses[blockIdx.x] = loss_of(target, log_sum, of_target);
  if (gradient) row_gradient<A, N>(row, kept, part, target, log_sum, static_cast<float>(*scale));
}

// For a sharded vocabulary, in three steps: part_statistics of this shard, a reduction over the ranks,
// part_gradients.
template <typename A, int N>
__global__ void __launch_bounds__(kLossThreads)
    part_statistics(const A* logits, int64_t first_row, Targets targets, VocabularyPart part,
                    RowStatistics statistics) {
  const A* row = logits + blockIdx.x * part.rows;
  const float of_target = target_logit(row, part, targets.of(first_row + blockIdx.x));
  const RowNumbers numbers = row_numbers<A, N>(row, part);
  if (threadIdx.x > 0) return;
  statistics.own_max[blockIdx.x] = statistics.max[blockIdx.x] = numbers.max;
  statistics.sum[blockIdx.x] = numbers.sum;
  statistics.target_logit[blockIdx.x] = of_target;
}

template <typename A, int N>
__global__ void __launch_bounds__(kLossThreads)
    part_gradients(A* logits, int64_t first_row, Targets targets, VocabularyPart part,
                   RowStatistics statistics, const double* scale, float* losses, bool gradient) {
  const int64_t target = targets.of(first_row + blockIdx.x);
  const float log_sum = statistics.max[blockIdx.x] + logf(statistics.sum[blockIdx.x]);
  if (threadIdx.x == 0) losses[blockIdx.x] = loss_of(target, log_sum, statistics.target_logit[blockIdx.x]);
  A* row = logits + blockIdx.x * part.rows;
  if (gradient) row_gradient<A, N>(row, row, part, target, log_sum, static_cast<float>(*scale));
}

}  // namespace recollect::cuda
