// Tries algorithms on the device: fills operands with numbers like a network's, measures the time of a
// product, and checks whether it gives the same bits twice.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <array>

#include "engine/ops/cuda/cublas.h"
#include "engine/runtime/cuda/event.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;
constexpr int kWarm = 2, kRepetitions = 7;
constexpr double kShortest = 0.2;  // milliseconds: shorter work is repeated within one measurement
constexpr int kMostAtOnce = 64;

constexpr const char* kDoing = "choosing an algorithm";

__device__ uint64_t scrambled(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

__device__ int64_t first_index() { return blockIdx.x * int64_t{kThreads} + threadIdx.x; }
__device__ int64_t index_step() { return gridDim.x * int64_t{kThreads}; }

template <typename T>
__global__ void fill(T* data, int64_t elements) {
  for (int64_t i = first_index(); i < elements; i += index_step())
    data[i] = static_cast<T>(static_cast<float>(scrambled(i) >> 40) * 0x1p-23f - 1.0f);
}

template <typename T>
__global__ void round_all(const float* from, T* to, int64_t elements) {
  for (int64_t i = first_index(); i < elements; i += index_step()) to[i] = static_cast<T>(from[i]);
}

// Sums, over all 4-byte words, a function of the word and its index. Integer sums are the same in any order.
__global__ void add_fingerprint(const uint32_t* words, int64_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (int64_t i = first_index(); i < count; i += index_step())
    mine += scrambled((static_cast<uint64_t>(i) << 32) ^ words[i]);
  atomicAdd(sum, mine);
}

// Calls `kernel` with `data` as a pointer to the type of `dtype`.
template <typename Kernel>
void with_type(DType dtype, void* data, Kernel kernel) {
  if (dtype == DType::kF32)
    kernel(static_cast<float*>(data));
  else if (dtype == DType::kBF16)
    kernel(static_cast<__nv_bfloat16*>(data));
  else if (dtype == DType::kE4M3)
    kernel(static_cast<__nv_fp8_e4m3*>(data));
  else if (dtype == DType::kE5M2)
    kernel(static_cast<__nv_fp8_e5m2*>(data));
  else
    kernel(static_cast<__half*>(data));
  check(cudaGetLastError(), kDoing);
}

double milliseconds(const std::function<void()>& enqueue, int times, cudaStream_t stream) {
  const Event begin(cudaEventDefault), end(cudaEventDefault);
  check(cudaEventRecord(begin.get(), stream), kDoing);
  for (int i = 0; i < times; ++i) enqueue();
  check(cudaEventRecord(end.get(), stream), kDoing);
  check(cudaEventSynchronize(end.get()), kDoing);
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, begin.get(), end.get()), kDoing);
  return elapsed / times;
}

double median_time(const std::function<void()>& enqueue, void* native) {
  const auto stream = static_cast<cudaStream_t>(native);
  double once = 0;
  for (int i = 0; i < kWarm; ++i) once = milliseconds(enqueue, 1, stream);
  const int times = static_cast<int>(std::clamp(kShortest / std::max(once, 1e-3), 1.0, double{kMostAtOnce}));
  std::array<double, kRepetitions> found;
  for (double& time : found) time = milliseconds(enqueue, times, stream);
  std::nth_element(found.begin(), found.begin() + kRepetitions / 2, found.end());
  return found[kRepetitions / 2];
}

uint64_t fingerprint(const void* data, std::size_t bytes, void* scratch, void* native) {
  const auto stream = static_cast<cudaStream_t>(native);
  auto* sum = static_cast<unsigned long long*>(scratch);
  check(cudaMemsetAsync(sum, 0, sizeof(*sum), stream), kDoing);
  const std::size_t words = bytes / 4;
  add_fingerprint<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint32_t*>(data),
                                                    static_cast<int64_t>(words), sum);
  check(cudaGetLastError(), kDoing);
  unsigned long long result = 0;
  uint16_t rest = 0;  // with an odd number of 2-byte elements one is left over
  check(cudaMemcpyAsync(&result, sum, sizeof(result), cudaMemcpyDeviceToHost, stream), kDoing);
  if (bytes % 4 != 0)
    check(cudaMemcpyAsync(&rest, static_cast<const std::byte*>(data) + words * 4, sizeof(rest),
                          cudaMemcpyDeviceToHost, stream),
          kDoing);
  check(cudaStreamSynchronize(stream), kDoing);
  return result * 65537 + rest;
}

}  // namespace

GemmTrials device_trials() {
  GemmTrials trials;
  trials.fill = [](void* data, DType dtype, int64_t elements, void* stream) {
    with_type(dtype, data, [&](auto* typed) {
      fill<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(typed, elements);
    });
  };
  trials.time = median_time;
  trials.fingerprint = fingerprint;
  trials.round_bias = [](const float* bias, int64_t elements, void* out, DType dtype, void* stream) {
    const auto blocks = static_cast<unsigned>((elements + kThreads - 1) / kThreads);
    with_type(dtype, out, [&](auto* typed) {
      round_all<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(bias, typed, elements);
    });
  };
  return trials;
}

}  // namespace recollect::cuda
