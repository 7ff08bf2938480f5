// Whether the cuDNN of this machine has kernels for our attention on an H200 that is only described, and how
// much workspace they ask for. Runs with fake_driver.cpp in the driver's place: nothing is computed.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include "engine/ops/cuda/attention_chunks.h"
#include "engine/ops/cuda/cudnn.h"
#include "tests/engine/expect_error.h"

namespace recollect::cuda {
namespace {

using recollect::test::expect_error;

// As cuDNN writes down an H200.
const DescribedDevice kH200{
    90,
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
    R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
    R"("supportCoopLaunch":1,"totalGlobalMem":150754820096,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":3201000,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceName":"NVIDIA H200",)"
    R"("deviceVer":900,"driverVer":13000})"};

// Every head of rows that are q | k | v.
AttentionProblem joined(int64_t samples, int64_t heads, int64_t kv_heads, int64_t length, int64_t head_size) {
  const int64_t row = (heads + 2 * kv_heads) * head_size;
  return {.samples = samples,
          .heads = heads,
          .kv_heads = kv_heads,
          .length = length,
          .head_size = head_size,
          .q_row = row,
          .kv_row = row,
          .o_row = heads * head_size};
}

class PlannedAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_fused_attention()) GTEST_SKIP() << "this build has no cudnn-frontend";
    try {
      library_.emplace(cudnn_name(), search_places(SearchEnvironment::of_process()));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // That cuDNN has a kernel; and, where a driver is there to load it, that its workspace fits what is
  // predicted.
  void expect_planned(const AttentionProblem& p) {
    const PlannedAttention planned = planned_attention(p, *library_, kH200);
    EXPECT_NE(planned.kernel, "");
    const std::size_t units = p.backward ? static_cast<std::size_t>(p.samples * p.heads) : 0;
    const std::size_t unit = attention_unit_bytes(p.length, p.head_size, p.heads / p.kv_heads, p.in_order);
    const std::size_t predicted = units * unit + kAttentionOtherBytes;
    ASSERT_TRUE(planned.workspace_bytes);
    EXPECT_LE(*planned.workspace_bytes, predicted) << p.samples << " " << p.heads << " " << p.length;
  }

  void expect_both(AttentionProblem problem) {
    for (bool backward : {false, true}) {
      problem.backward = backward;
      expect_planned(problem);
    }
  }

  std::optional<Library> library_;
};

TEST_F(PlannedAttentionTest, HopperHasKernelsForEveryShape) {
  for (const auto& [samples, heads, length, head_size] : std::vector<std::array<int64_t, 4>>{
           {16, 12, 1024, 64}, {2, 3, 70, 40}, {1, 1, 2, 8}, {1, 2, 8192, 128}}) {
    AttentionProblem problem = joined(samples, heads, heads, length, head_size);
    problem.dropout = 0.1;
    expect_both(problem);
  }
}

// Some heads of longer rows; all tokens seeing all; samples with lengths.
TEST_F(PlannedAttentionTest, HopperHasKernelsForEveryKind) {
  AttentionProblem part = joined(1, 12, 12, 256, 64);
  part.dtype = DType::kF16;
  part.heads = part.kv_heads = 3;
  expect_both(part);
  AttentionProblem bert = joined(4, 16, 16, 512, 64);
  bert.causal = false;
  expect_both(bert);
  bert.padded = true;
  bert.dropout = 0.1;
  expect_both(bert);
}

// Windows before a query, and to both sides; with dropout, with groups of heads, and with another scale of scores.
TEST_F(PlannedAttentionTest, HopperHasKernelsForWindows) {
  AttentionProblem problem = joined(2, 8, 2, 2048, 128);
  problem.window = 512;
  problem.dropout = 0.1;
  expect_both(problem);
  problem = joined(1, 4, 4, 1000, 64);
  problem.window = 65;
  problem.scale = 0.0625;
  problem.causal = false;
  expect_both(problem);
}

// Groups of heads; with lengths, and key/value rows of their own.
TEST_F(PlannedAttentionTest, HopperHasKernelsForSharedKeys) {
  expect_both(joined(3, 8, 2, 1000, 80));
  AttentionProblem apart = joined(2, 4, 1, 2048, 128);
  apart.q_row = 4 * 128;
  apart.kv_row = 2 * 128;
  apart.padded = true;
  expect_both(apart);
}

// Whatever the user's environment says of it.
TEST_F(PlannedAttentionTest, BackwardGoesInOrderWhereItIsToldTo) {
  if (library_->version() < kOldestInOrder) GTEST_SKIP() << "from cuDNN 9.25 on";
  AttentionProblem problem = joined(1, 8, 2, 4096, 128);
  problem.backward = true;
  const std::size_t least_of_scores = std::size_t{2} * 8 * 4096 * 4096;
  ::setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "0", 1);
  const PlannedAttention scores = planned_attention(problem, *library_, kH200);
  ::setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "-1", 1);
  problem.in_order = true;
  const PlannedAttention order = planned_attention(problem, *library_, kH200);
  ::unsetenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT");
  ASSERT_TRUE(scores.workspace_bytes && order.workspace_bytes);
  EXPECT_GE(*scores.workspace_bytes, least_of_scores);
  EXPECT_LT(4 * *order.workspace_bytes, least_of_scores);
  EXPECT_NE(order.kernel, scores.kernel);
  expect_planned(problem);
}

TEST_F(PlannedAttentionTest, WhatCudnnDoesNotDoIsSaidByName) {
  const AttentionProblem odd = joined(1, 1, 1, 64, 36);
  expect_error(ExitCode::kConfiguration, {"cuDNN", "1 heads of 36", "64 tokens", "bf16"},
               [&] { planned_attention(odd, *library_, kH200); });
}

}  // namespace
}  // namespace recollect::cuda
