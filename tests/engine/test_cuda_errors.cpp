// What a CUDA call that fails means for the process: memory that is not there, or something that no user can have caused.
// With the CUDA runtime that the emulation has.
#include <gtest/gtest.h>

#include "engine/runtime/cuda/check.h"
#include "tests/engine/expect_error.h"

namespace recollect {
namespace {

TEST(CudaErrors, AreOfMemoryOrInternal) {
  cuda::check(cudaSuccess, "nothing");
  test::expect_error(ExitCode::kDeviceMemory, {"reserving: "},
                     [] { cuda::check(cudaErrorMemoryAllocation, "reserving"); });
  test::expect_error(ExitCode::kInternal, {"copying: ", cudaGetErrorName(cudaErrorInvalidValue)},
                     [] { cuda::check(cudaErrorInvalidValue, "copying"); });
}

}  // namespace
}  // namespace recollect
