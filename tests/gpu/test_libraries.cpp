// What a run hears where there is no driver.
#include "engine/ops/cuda/libraries.h"

#include <gtest/gtest.h>

#include "tests/engine/expect_error.h"
#include "tests/gpu/device_memory.h"

namespace recollect::cuda {
namespace {

using recollect::test::expect_error;

TEST(Libraries, WithoutADeviceARunHearsWhatIsMissing) {
  if (has_device()) GTEST_SKIP() << "there is a device";
  expect_error(ExitCode::kConfiguration, {"there is no", "nvidia-smi"},
               [] { Libraries(LibrariesOptions{}); });
}

}  // namespace
}  // namespace recollect::cuda
