// ThreadSanitizer watches kernels: it sees a barrier that is missing, whatever the values are, and is silent where none is.
#include <numeric>
#include <vector>

#include "tests/gpu/emulation/order.h"
#include "tests/gpu/fake_cuda/cuda_runtime.h"
#include "tests/gpu/fake_cuda/races/expect_race.h"

namespace recollect::test {
namespace {

constexpr int kRaceThreads = 64;

// Which of a kernel's barriers are there.
struct Barriers {
  bool first = true, second = true;
};

// Each thread takes what its neighbour has put down.
void pass_round(float* data, Barriers barriers) {
  RECOLLECT_SHARED(values, float[kRaceThreads]);
  for (int round = 0; round < 2; ++round) {
    values[threadIdx.x] = data[threadIdx.x];
    if (barriers.first) __syncthreads();
    data[threadIdx.x] = values[(threadIdx.x + 1) % kRaceThreads];
    if (barriers.second) __syncthreads();
  }
}

// The same by turns in two pieces of memory, which needs one barrier a round; or in one.
void pass_by_turns(float* data, bool two_pieces) {
  RECOLLECT_SHARED(values, float[2][kRaceThreads]);
  for (int round = 0; round < 4; ++round) {
    float* const at = values[two_pieces ? round % 2 : 0];
    at[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = at[(threadIdx.x + 1) % kRaceThreads];
  }
}

// Lanes of a warp.
void pass_in_warp(float* data, Barriers barriers) {
  RECOLLECT_SHARED(values, float[kRaceThreads]);
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  values[threadIdx.x] = data[threadIdx.x];
  if (barriers.first) __syncwarp();
  data[threadIdx.x] = values[warp + (lane + 1) % 32];
}

// What is exchanged orders those who exchange.
void sum_in_warp(float* data, bool exchanged) {
  RECOLLECT_SHARED(sum, float);
  float mine = data[threadIdx.x];
  for (int distance = 16; distance > 0 && exchanged; distance /= 2)
    mine += __shfl_xor_sync(~0u, mine, distance);
  if (threadIdx.x == 0) sum = mine;
  __syncthreads();
  if (threadIdx.x % 32 == 5) data[threadIdx.x] = sum;
}

// Every block adds one to the same number.
void count_blocks(int* count, bool atomically) {
  if (threadIdx.x > 0) return;
  if (atomically)
    atomicAdd(count, 1);
  else
    *count += 1;
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, Arguments... arguments) {
  emulation::watch_races(true);
  const cudaLaunchConfig_t config{dim3(blocks), dim3(kRaceThreads), 0, nullptr};
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
  emulation::watch_races(false);
}

std::vector<float> counted() {
  std::vector<float> data(kRaceThreads);
  std::iota(data.begin(), data.end(), 0.0f);
  return data;
}

TEST(KernelRaces, AreNoneWhereNothingIsMissing) {
  std::vector<float> data = counted();
  launch(pass_round, 1, data.data(), Barriers{});
  EXPECT_EQ(data[0], 2);
  launch(pass_by_turns, 1, data.data(), true);
  EXPECT_EQ(data[0], 6);
  launch(pass_in_warp, 1, data.data(), Barriers{});
  EXPECT_EQ(data[0], 7);
  launch(sum_in_warp, 1, data.data(), true);
  int count = 0;
  launch(count_blocks, 5, &count, true);
  EXPECT_EQ(count, 5);
}

TEST(KernelRaces, AMissingBarrierIsSeen) {
  std::vector<float> data = counted();
  EXPECT_RACE(launch(pass_round, 1, data.data(), Barriers{.first = false}));
  EXPECT_RACE(launch(pass_round, 1, data.data(), Barriers{.second = false}));
  EXPECT_RACE(launch(pass_by_turns, 1, data.data(), false));
  EXPECT_RACE(launch(pass_in_warp, 1, data.data(), Barriers{.first = false}));
}

TEST(KernelRaces, BlocksThatWriteTheSamePlaceAreSeen) {
  int count = 0;
  EXPECT_RACE(launch(count_blocks, 5, &count, false));
}

}  // namespace
}  // namespace recollect::test
