// Every op case on a device, in every precision, against the reference in double.
#include <gtest/gtest.h>

#include "tests/engine/op_harness.h"
#include "tests/gpu/device_kernels.h"
#include "tests/gpu/device_memory.h"

namespace recollect::testing {
namespace {

constexpr double kFloatTolerance = 1e-5, kBfloat16Rounding = 0x1p-8, kFloat16Rounding = 0x1p-11;

// In tensor cores' dtypes attention is cuDNN's, whose dropout masks are its own (test_device_attention.cpp).
bool drops_by_another_mask(const OpCase& c, Precision precision) {
  return c.kind.starts_with("attention") && precision.activation != DType::kF32 && c.attributes.real("p") > 0;
}

class DeviceOps : public ::testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (cuda::has_device()) libraries_ = new cuda::Libraries({.cache_file = "none"});
  }
  static void TearDownTestSuite() { delete std::exchange(libraries_, nullptr); }

  void compare(Precision precision, double tolerance) {
    RECOLLECT_NEEDS_DEVICE();
    const OpCase& c = GetParam();
    if (drops_by_another_mask(c, precision)) return;
    KernelTable reference, device;
    reference::register_kernels(reference);
    register_device_kernels(device, *libraries_);
    const CaseData data = make_data(c, precision);
    const std::vector<Numbers> want = run_case(c, data, reference, kDouble);
    const std::vector<Numbers> got = run_case(c, data, device, precision);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(got[i], want[i], tolerance, "output " + std::to_string(i));
  }

 private:
  static inline cuda::Libraries* libraries_ = nullptr;
};

TEST_P(DeviceOps, Float) { compare(kFloat, kFloatTolerance); }
TEST_P(DeviceOps, Bfloat16) { compare(kBfloat16, GetParam().bf16_roundings * kBfloat16Rounding); }
TEST_P(DeviceOps, Float16) { compare(kFloat16, GetParam().bf16_roundings * kFloat16Rounding); }

INSTANTIATE_TEST_SUITE_P(Ops, DeviceOps, ::testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::testing
