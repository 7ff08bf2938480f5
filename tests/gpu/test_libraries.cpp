// NVIDIA's libraries as they are on this machine, without a device: which are found, what a run hears where
// there is no driver, and whether cuDNN has kernels for our attention on a device that is only described.
#include "engine/ops/cuda/libraries.h"

#include <gtest/gtest.h>

#include "tests/engine/expect_error.h"
#include "tests/gpu/device_memory.h"

namespace recollect::cuda {
namespace {

using recollect::test::expect_error;

TEST(Libraries, AreReported) {
  const std::vector<LibraryReport> reports = find_libraries();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].title, "cuBLASLt");
  EXPECT_EQ(reports[1].title, "cuDNN");
  for (const LibraryReport& report : reports) {
    if (report.path.empty()) {  // then why
      EXPECT_NE(report.problem.find("the loader's path"), std::string::npos) << report.problem;
      continue;
    }
    EXPECT_EQ(report.problem, "");
    EXPECT_NE(report.path.find(report.title == "cuDNN" ? "libcudnn.so.9" : "libcublasLt.so.13"),
              std::string::npos);
    EXPECT_NE(report.version.find('.'), std::string::npos) << report.version;
    RecordProperty(report.title, report.version + " " + report.path);
  }
}

TEST(Libraries, WithoutADeviceARunHearsWhatIsMissing) {
  if (has_device()) GTEST_SKIP() << "there is a device";
  expect_error(ExitCode::kConfiguration, {"there is no", "nvidia-smi"},
               [] { Libraries(LibrariesOptions{}); });
}

}  // namespace
}  // namespace recollect::cuda
