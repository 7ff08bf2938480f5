// Element types. bf16 and f16 are storage types: arithmetic is done in float (or double), and results are
// rounded to nearest-even when they are stored. e4m3 and e5m2 are 8-bit codes (float8.h) that mean something
// only together with a scale, so they count neither as floating types nor as types that can be added up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace recollect {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU16, kU8, kI8, kE4M3, kE5M2 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);  // "f64", "f32", "bf16", ...
constexpr bool is_floating(DType dtype) { return dtype <= DType::kF16; }
constexpr bool is_float8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((u >> 16) | 0x40u)  // keep NaN a NaN
                                           : static_cast<uint16_t>(rounded);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits = 0;

  f16() = default;
  explicit f16(float value);
  operator float() const;
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

}  // namespace recollect
