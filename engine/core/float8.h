// The two 8-bit formats of the Open Compute Project's "8-bit Floating Point Specification" (2023). e4m3 has
// no infinity, and its largest number is 448. e5m2 has infinity, and its largest finite number is 57344.
// Floats are rounded to the nearest number, ties to even, and saturate: everything larger than the largest
// number, infinity included, becomes the largest number. Every NaN becomes 0x7f, as on NVIDIA's devices.
// Every number of both formats is also a bf16 number.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/core/dtype.h"

namespace recollect {

namespace float8 {

inline constexpr uint8_t kNan = 0x7f;

struct E4M3 {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint8_t kLargest = 0x7e,
                           kInfinity = 0x7f;  // no code is infinity: the first NaN stands in its place
  static constexpr float kMost = 448;
};

struct E5M2 {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint8_t kLargest = 0x7b, kInfinity = 0x7c;
  static constexpr float kMost = 57344;
};

template <typename Format>
constexpr uint8_t narrow(float value) {
  constexpr int kCut = 23 - Format::kMantissa;
  constexpr uint32_t kSmallestNormal = (128u - Format::kBias) << 23;
  // The float whose last mantissa bit is worth the format's smallest number. Adding it to a value below the
  // normal numbers rounds that value.
  constexpr uint32_t kRounder = (127u + 1 - Format::kBias - Format::kMantissa + 23) << 23;
  const uint32_t u = std::bit_cast<uint32_t>(value), sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return kNan;
  if (magnitude >= std::bit_cast<uint32_t>(Format::kMost))
    return static_cast<uint8_t>(sign | Format::kLargest);
  if (magnitude < kSmallestNormal) {
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kRounder);
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - kRounder));
  }
  const uint32_t rounded = magnitude + ((1u << (kCut - 1)) - 1) + (magnitude >> kCut & 1u);
  return static_cast<uint8_t>(sign | (rounded - ((127u - Format::kBias) << 23)) >> kCut);
}

template <typename Format>
constexpr float widen(uint8_t code) {
  constexpr int kCut = 23 - Format::kMantissa;
  constexpr uint32_t kUnit = (127u + 1 - Format::kBias - Format::kMantissa) << 23;  // the smallest number
  const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7fu;
  if (magnitude >= Format::kInfinity) {
    const bool is_infinity = magnitude == Format::kInfinity && Format::kInfinity != kNan;
    return std::bit_cast<float>(is_infinity ? sign | 0x7f800000u : 0x7fc00000u);
  }
  if (magnitude < (1u << Format::kMantissa)) {
    const float number = static_cast<float>(magnitude) * std::bit_cast<float>(kUnit);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(number));
  }
  return std::bit_cast<float>(sign | ((magnitude << kCut) + ((127u - Format::kBias) << 23)));
}

}  // namespace float8

template <typename F>
struct Float8 {
  using Format = F;
  uint8_t bits = 0;

  Float8() = default;
  constexpr explicit Float8(float value) : bits(float8::narrow<Format>(value)) {}
  constexpr operator float() const { return float8::widen<Format>(bits); }
};
using e4m3 = Float8<float8::E4M3>;
using e5m2 = Float8<float8::E5M2>;

template <>
struct DTypeOf<e4m3> {
  static constexpr DType value = DType::kE4M3;
};
template <>
struct DTypeOf<e5m2> {
  static constexpr DType value = DType::kE5M2;
};

}  // namespace recollect
