// Whether the cuDNN of this machine has kernels for our attention on an H200 that is only described, and how
// much workspace they ask for. Runs with fake_driver.cpp in the driver's place: nothing is computed.
#include <gtest/gtest.h>

#include <array>
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
    const std::size_t predicted = units * attention_unit_bytes(p.length) + kAttentionOtherBytes;
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
           {16, 12, 1024, 64}, {2, 3, 70, 40}, {1, 1, 2, 8}, {1, 2, 8192, 128}})
    expect_both({.samples = samples,
                 .heads = heads,
                 .length = length,
                 .head_size = head_size,
                 .row_heads = heads,
                 .dropout = 0.1});
}

// Some heads of longer rows; all tokens seeing all; sequences with padding.
TEST_F(PlannedAttentionTest, HopperHasKernelsForEveryKind) {
  expect_both(
      {.dtype = DType::kF16, .samples = 1, .heads = 3, .length = 256, .head_size = 64, .row_heads = 12});
  AttentionProblem bert{.samples = 4, .heads = 16, .length = 512, .head_size = 64, .row_heads = 16};
  bert.causal = false;
  expect_both(bert);
  bert.padded = true;
  bert.dropout = 0.1;
  expect_both(bert);
}

TEST_F(PlannedAttentionTest, WhatCudnnDoesNotDoIsSaidByName) {
  const AttentionProblem odd{.samples = 1, .heads = 1, .length = 64, .head_size = 36, .row_heads = 1};
  expect_error(ExitCode::kConfiguration, {"cuDNN", "1 heads of 36", "64 tokens", "bf16"},
               [&] { planned_attention(odd, *library_, kH200); });
}

}  // namespace
}  // namespace recollect::cuda
