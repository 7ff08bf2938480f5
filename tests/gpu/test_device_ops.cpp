// Every op case on a device, in every precision, against the reference in double.
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "tests/engine/op_harness.h"
#include "tests/gpu/device_kernels.h"
#include "tests/gpu/device_memory.h"

namespace recollect::test {
namespace {

// Hopper's tensor cores hold sums of FP8 products with about 14 bits until they are added to a float (DeepSeek-AI,
// "DeepSeek-V3 Technical Report", 2024, section 3.3.2).
constexpr double kFloat8Sums = 0x1p-12;
constexpr double kFloatTolerance = 1e-5, kBfloat16Rounding = 0x1p-8, kFloat16Rounding = 0x1p-11;

// In tensor cores' dtypes attention is cuDNN's, whose dropout masks are its own: test_device_attention.cpp
// judges them.
std::vector<OpCase> cases_of_16_bits() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(
      cases, [](const OpCase& c) { return c.kind.starts_with("attention") && c.attributes.real("p") > 0; });
  return cases;
}

// In tensor cores' dtypes cuDNN also rounds probabilities and their gradients, and cuBLASLt adds a bias that
// is rounded to the activations' dtype.
double roundings(const OpCase& c) {
  const double more = c.kind == "attention_backward" ? 6 : c.kind == "attention" ? 2 : 1;
  return more * c.bf16_roundings;
}

void round_bias(const OpCase& c, Precision precision, CaseData& data) {
  const std::size_t bias = c.kind == "linear" || c.kind == "linear_gelu" ? 2
                           : c.kind == "lm_head_loss"                    ? 4
                           : c.kind == "linear_fp8"                      ? 5
                                                                         : data.inputs.size();
  if (bias >= data.inputs.size() || precision.activation == DType::kF32) return;
  for (double& x : data.inputs[bias]) {
    const auto number = static_cast<float>(x);
    x = precision.activation == DType::kBF16 ? double{bf16(number)} : double{f16(number)};
  }
}

class DeviceOps : public ::testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (cuda::has_device())
      libraries_ = new cuda::Libraries({.timed = !std::getenv("RECOLLECT_UNTIMED"), .cache_file = "none"});
  }
  static void TearDownTestSuite() { delete std::exchange(libraries_, nullptr); }

  void compare(Precision precision, double tolerance) {
    RECOLLECT_NEEDS_DEVICE();
    const OpCase& c = GetParam();
    if (c.kind.starts_with("linear_fp8")) tolerance += kFloat8Sums;
    KernelTable reference, device;
    reference::register_kernels(reference);
    register_device_kernels(device, *libraries_);
    CaseData data = make_data(c, precision);
    round_bias(c, precision, data);
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

class DeviceOps16 : public DeviceOps {};
TEST_P(DeviceOps16, Bfloat16) { compare(kBfloat16, roundings(GetParam()) * kBfloat16Rounding); }
TEST_P(DeviceOps16, Float16) { compare(kFloat16, roundings(GetParam()) * kFloat16Rounding); }

const auto name_of_case = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Ops, DeviceOps, ::testing::ValuesIn(op_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, DeviceOps16, ::testing::ValuesIn(cases_of_16_bits()), name_of_case);

}  // namespace
}  // namespace recollect::test
