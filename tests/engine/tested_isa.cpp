// Where RECOLLECT_TEST_ISA names instructions that this processor has not, the program ends with 77, which CTest takes
// for a skipped test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "engine/core/error.h"
#include "tests/engine/cpu_kernels.h"

namespace recollect::test {
namespace {

class TestedIsa final : public ::testing::Environment {
  void SetUp() override {
    try {
      std::printf("kernels for %s\n", std::string(name_of(tested_level().isa)).c_str());
    } catch (const Error& error) {
      std::printf("skipped: %s\n", error.what());
      std::fflush(stdout);
      ::_exit(77);
    }
  }
};

// Owned by GoogleTest from here on.
[[maybe_unused]] const auto* const tested_isa = ::testing::AddGlobalTestEnvironment(new TestedIsa);

}  // namespace
}  // namespace recollect::test
