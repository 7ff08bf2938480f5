// Every op case on a device, in every precision, against the reference in double.
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "tests/gpu/device_bounds.h"
#include "tests/gpu/device_kernels.h"
#include "tests/gpu/device_memory.h"

namespace recollect::test {
namespace {

// In tensor cores' dtypes attention is cuDNN's, whose dropout masks are its own: test_device_attention.cpp
// judges them.
std::vector<OpCase> cases_of_16_bits() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(
      cases, [](const OpCase& c) { return c.kind.starts_with("attention") && c.attributes.real("p") > 0; });
  return cases;
}

class DeviceOps : public ::testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (cuda::has_device())
      libraries_ = new cuda::Libraries({.timed = !std::getenv("RECOLLECT_UNTIMED"), .cache_file = "none"});
  }
  static void TearDownTestSuite() { delete std::exchange(libraries_, nullptr); }

  void compare(Precision precision) {
    RECOLLECT_NEEDS_DEVICE();
    const OpCase& c = GetParam();
    KernelTable reference, device;
    reference::register_kernels(reference);
    register_device_kernels(device, *libraries_);
    CaseData data = make_data(c, precision);
    round_bias(c, precision, data);
    const std::vector<Numbers> want = run_case(c, data, reference, kDouble);
    const std::vector<Numbers> got = run_case(c, data, device, precision);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], device_bound(c, precision), "output " + std::to_string(i),
                   size_of_accumulator(c, data, i));
  }

 private:
  static inline cuda::Libraries* libraries_ = nullptr;
};

TEST_P(DeviceOps, Float) { compare(kFloat); }

class DeviceOps16 : public DeviceOps {};
TEST_P(DeviceOps16, Bfloat16) { compare(kBfloat16); }
TEST_P(DeviceOps16, Float16) { compare(kFloat16); }

const auto name_of_case = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Ops, DeviceOps, ::testing::ValuesIn(op_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, DeviceOps16, ::testing::ValuesIn(cases_of_16_bits()), name_of_case);

}  // namespace
}  // namespace recollect::test
