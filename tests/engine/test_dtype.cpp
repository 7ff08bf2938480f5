// bf16 and f16 hold exactly the numbers of their formats, and float rounds to the nearest of them, ties to
// even: all patterns, all ties.
#include "engine/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/core/error.h"

namespace recollect {
namespace {

template <typename T>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int mantissa = 7, bias = 127;
  static constexpr uint16_t infinity = 0x7f80;
};
template <>
struct Format<f16> {
  static constexpr int mantissa = 10, bias = 15;
  static constexpr uint16_t infinity = 0x7c00;
};

template <typename T>
T pattern(uint16_t bits) {
  T value;
  value.bits = bits;
  return value;
}

// The number a finite pattern stands for, from the format's definition.
template <typename T>
double meaning(uint16_t bits) {
  constexpr int mantissa = Format<T>::mantissa;
  const int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - Format<T>::bias - mantissa)
                    : std::ldexp(fraction + (1 << mantissa), exponent - Format<T>::bias - mantissa);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <typename T>
class HalfWidth : public ::testing::Test {};
using HalfWidthTypes = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfWidth, HalfWidthTypes);

TYPED_TEST(HalfWidth, EveryPatternMeansItsNumberAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = pattern<TypeParam>(static_cast<uint16_t>(bits));
    const uint16_t back = TypeParam(value).bits, magnitude = bits & 0x7fff;
    if (magnitude > Format<TypeParam>::infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_GT(back & 0x7fff, Format<TypeParam>::infinity) << "not a NaN any more: " << bits;
      continue;
    }
    ASSERT_EQ(back, bits);
    if (magnitude == Format<TypeParam>::infinity) {
      ASSERT_EQ(value, bits & 0x8000 ? -INFINITY : INFINITY);
    } else {
      ASSERT_EQ(static_cast<double>(value), meaning<TypeParam>(static_cast<uint16_t>(bits))) << bits;
    }
  }
}

// Between each number and the next (infinity after the largest): the middle goes to the even one, anything
// off the middle to the nearer one. Both signs.
TYPED_TEST(HalfWidth, RoundsToNearestEven) {
  for (uint16_t low = 0; low < Format<TypeParam>::infinity; ++low) {
    const uint16_t high = low + 1, even = low % 2 ? high : low;
    const float below = pattern<TypeParam>(low);
    const double next =
        meaning<TypeParam>(high);  // for the largest: the power of two that infinity stands in for
    const float middle = static_cast<float>(0.5 * (below + next));
    ASSERT_EQ(static_cast<double>(middle), 0.5 * (below + next)) << "the middle is not a float";
    ASSERT_EQ(TypeParam(middle).bits, even) << low;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, low) << low;
    ASSERT_EQ(TypeParam(std::nextafter(middle, INFINITY)).bits, high) << low;
    ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000) << low;
    ASSERT_EQ(TypeParam(-std::nextafter(middle, 0.0f)).bits, low | 0x8000) << low;
    ASSERT_EQ(TypeParam(-std::nextafter(middle, INFINITY)).bits, high | 0x8000) << low;
  }
}

TYPED_TEST(HalfWidth, KeepsWhatIsNoNumber) {
  EXPECT_EQ(TypeParam(INFINITY).bits, Format<TypeParam>::infinity);
  EXPECT_EQ(TypeParam(-INFINITY).bits, Format<TypeParam>::infinity | 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, Format<TypeParam>::infinity);
  EXPECT_EQ(TypeParam(0.0f).bits, 0);
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits, 0);
  // NaNs whose payload lies only in the bits that are cut off, and with either sign.
  for (const uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu, 0x7f80ffffu}) {
    const TypeParam value(std::bit_cast<float>(nan));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << nan;
    EXPECT_EQ(value.bits >> 15, nan >> 31) << "the sign of a NaN changed";
  }
}

TEST(DType, KnowsSizesAndNames) {
  EXPECT_EQ(size_of(DType::kF64), 8u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
  EXPECT_EQ(size_of(DType::kF32), 4u);
  EXPECT_EQ(size_of(DType::kI32), 4u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_EQ(size_of(DType::kU16), 2u);
  EXPECT_EQ(size_of(DType::kU8), 1u);
  EXPECT_EQ(name_of(DType::kBF16), "bf16");
  EXPECT_TRUE(is_floating(DType::kF16));
  EXPECT_FALSE(is_floating(DType::kI64));
  EXPECT_EQ(size_of(DType::kE4M3), 1u);
  EXPECT_EQ(name_of(DType::kE5M2), "e5m2");
  EXPECT_FALSE(is_floating(DType::kE4M3)) << "a code means nothing without its scale";
  EXPECT_THROW(size_of(static_cast<DType>(99)), Error);
}

}  // namespace
}  // namespace recollect
