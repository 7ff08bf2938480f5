// What runs kernels on the CPU (tests/gpu/emulation) gives them a GPU's threads, and sees what a GPU would
// not forgive.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/engine/expect_error.h"
#include "tests/gpu/fake_cuda/cuda_runtime.h"

namespace recollect::emulation {
namespace {

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
                   Arguments... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared, nullptr};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void number_threads(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  const unsigned thread = threadIdx.x + blockDim.x * threadIdx.y;
  out[block * blockDim.x * blockDim.y + thread] += 1 + static_cast<int>(1000 * block + thread);
}

TEST(Emulation, RunsEveryThreadOfEveryBlockOnce) {
  for (const Order order : {Order::kForward, Order::kBackward}) {
    set_order(order);
    std::vector<int> out(6 * 128, 0);
    EXPECT_EQ(launch(number_threads, dim3(3, 2), dim3(32, 4), 0, out.data()), cudaSuccess);
    for (int i = 0; i < 6 * 128; ++i) ASSERT_EQ(out[i], 1 + 1000 * (i / 128) + i % 128);
  }
}

__global__ void reverse(float* data, bool barrier) {
  RECOLLECT_SHARED(copy, float[256]);
  copy[threadIdx.x] = data[threadIdx.x];
  if (barrier) __syncthreads();
  data[threadIdx.x] = copy[255 - threadIdx.x];
}

std::vector<float> reversed(Order order, bool barrier) {
  std::vector<float> data(256);
  for (int i = 0; i < 256; ++i) data[i] = static_cast<float>(i);
  set_order(order);
  launch(reverse, dim3(1), dim3(256), 0, data.data(), barrier);
  return data;
}

TEST(Emulation, BarriersHoldThreadsUntilAllAreThere) {
  for (const Order order : {Order::kForward, Order::kBackward}) {
    const std::vector<float> data = reversed(order, true);
    for (int i = 0; i < 256; ++i) ASSERT_EQ(data[i], 255 - i);
  }
}

TEST(Emulation, WithoutABarrierSharedMemoryIsNaNOrDependsOnTheOrder) {
  const std::vector<float> forward = reversed(Order::kForward, false);
  const std::vector<float> backward = reversed(Order::kBackward, false);
  EXPECT_TRUE(std::isnan(forward[0]));
  EXPECT_TRUE(std::isnan(backward[255]));
  EXPECT_EQ(forward[255], 0);
  EXPECT_EQ(backward[0], 255);
}

__global__ void half_a_barrier() {
  if (threadIdx.x >= 40) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x >= 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_a_warp(int* out) {
  if (threadIdx.x % 2 == 0) *out = __shfl_xor_sync(0xffffffffu, 1, 2);
}

TEST(Emulation, SaysWhichBarrierNotAllReach) {
  int out = 0;
  const auto refused = [](const char* why, auto f) { test::expect_error(ExitCode::kInternal, {why}, f); };
  refused("40 of 64 threads never reach the barrier", [] { launch(half_a_barrier, dim3(1), dim3(64), 0); });
  refused("wait at two places", [] { launch(two_barriers, dim3(1), dim3(64), 0); });
  refused("16 of 32 threads never reach the warp's meeting",
          [&] { launch(half_a_warp, dim3(1), dim3(32), 0, &out); });
  const std::vector<float> data = reversed(Order::kForward, true);  // and afterwards it works as before
  EXPECT_EQ(data[0], 255);
}

__global__ void meet(int* sums, unsigned* same, int* before) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int sum = static_cast<int>(threadIdx.x);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  sums[threadIdx.x] = sum;
  same[threadIdx.x] = __match_any_sync(0xffffffffu, lane / 5);
  before[threadIdx.x] = __shfl_up_sync(0xffffffffu, lane, 3);
}

TEST(Emulation, LanesOfAWarpExchangeNumbers) {
  std::vector<int> sums(64), before(64);
  std::vector<unsigned> same(64);
  launch(meet, dim3(1), dim3(64), 0, sums.data(), same.data(), before.data());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(sums[i], i < 32 ? 496 : 1520);
    EXPECT_EQ(same[i], i % 32 / 5 == 6 ? 0xC0000000u : 31u << (i % 32 / 5 * 5));
    EXPECT_EQ(before[i], i % 32 < 3 ? i % 32 : i % 32 - 3);
  }
}

__global__ void use_dynamic(double* out) {
  RECOLLECT_DYNAMIC_SHARED(memory, double);
  memory[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = memory[(threadIdx.x + 1) % blockDim.x];
}

TEST(Emulation, RefusesWhatADeviceRefuses) {
  std::vector<double> out(64);
  EXPECT_EQ(launch(use_dynamic, dim3(1), dim3(64), 64 * sizeof(double), out.data()), cudaSuccess);
  EXPECT_EQ(out[5], 6);
  EXPECT_EQ(launch(use_dynamic, dim3(1), dim3(64), 64 << 10, out.data()), cudaErrorInvalidValue);
  const auto* kernel = reinterpret_cast<const void*>(use_dynamic);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10), cudaSuccess);
  EXPECT_EQ(launch(use_dynamic, dim3(1), dim3(64), 64 << 10, out.data()), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
  EXPECT_EQ(launch(use_dynamic, dim3(1, 65536), dim3(64), 0, out.data()), cudaErrorInvalidValue);
  EXPECT_THROW(launch(use_dynamic, dim3(1), dim3(40), 0, out.data()), Error);
}

}  // namespace
}  // namespace recollect::emulation
