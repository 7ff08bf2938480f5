// What all backends share of FP8: current scaling of a tensor (as Transformer Engine's Float8CurrentScaling), which is a
// function of its numbers alone, so that recomputation and any number of threads have the same codes. A number is stored
// as the code of its multiple by `factor`, which brings the tensor's largest to the format's largest; a code times `scale`
// is the number again. Where a number is not finite all codes are NaN, and so is the scale: an overflow is not hidden.
// Devices take floats below the smallest normal one for zero; elsewhere they have codes where nothing is much larger.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "engine/core/float8.h"
#include "engine/core/host_device.h"
#include "engine/core/tensor.h"

namespace recollect {

struct Float8Scale {
  float factor = 1, scale = 1;
};

// Ordered as the magnitudes are, with infinity and NaN above all numbers.
RECOLLECT_HOST_DEVICE constexpr uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
}

// `largest`: of magnitude_bits; `most`: the largest number of the format.
RECOLLECT_HOST_DEVICE constexpr Float8Scale float8_scale(uint32_t largest, float most) {
  constexpr float kMostFactor = 0x1p126f;  // its inverse is no subnormal number
  if (largest == 0) return {};
  if (largest >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), std::bit_cast<float>(0x7fc00000u)};
  const float factor = most / std::bit_cast<float>(largest);
  const float bounded = factor < kMostFactor ? factor : kMostFactor;
  return {bounded, 1.0f / bounded};
}

// Which copies quantise makes: as x lies, transposed, or both.
inline bool makes_rows(const std::string& copies) { return copies != "columns"; }
inline bool makes_columns(const std::string& copies) { return copies != "rows"; }

// The outputs that codes are, with their scale. They are an op's last.
inline std::size_t code_outputs(const std::string& copies) { return copies == "both" ? 3 : 2; }

// Rows alone are made of tensors of any rank: of those of their innermost dimension.
inline int64_t row_length(const Shape& shape) { return shape[shape.rank() - 1]; }

}  // namespace recollect
