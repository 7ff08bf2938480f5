// The parts of FP8 that all backends share: current scaling of a tensor (as Transformer Engine's
// Float8CurrentScaling). The scale depends only on the tensor's numbers, so recomputation and any number of
// threads give the same codes. A number x is stored as the code of x * factor, where `factor` maps the
// tensor's largest magnitude to the format's largest number; code * scale is the number again. If one number
// is not finite, all codes and the scale are NaN, so that an overflow is not hidden. Devices treat floats
// below the smallest normal one as zero; other backends give them codes if the tensor has no much larger
// number.
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

// Returns bits in the order of magnitudes, with infinity and NaN above all numbers.
RECOLLECT_HOST_DEVICE constexpr uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
}

// `largest`: the maximum of magnitude_bits over the tensor. `most`: the largest number of the format.
RECOLLECT_HOST_DEVICE constexpr Float8Scale float8_scale(uint32_t largest, float most) {
  constexpr float kMostFactor = 0x1p126f;  // its inverse is no subnormal number
  if (largest == 0) return {};
  if (largest >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), std::bit_cast<float>(0x7fc00000u)};
  const float factor = most / std::bit_cast<float>(largest);
  const float bounded = factor < kMostFactor ? factor : kMostFactor;
  return {bounded, 1.0f / bounded};
}

// Which copies quantise makes: in the layout of x (rows), transposed (columns), or both.
inline bool makes_rows(const std::string& copies) { return copies != "columns"; }
inline bool makes_columns(const std::string& copies) { return copies != "rows"; }

// Returns the number of outputs for codes and their scale. They are an op's last outputs.
inline std::size_t code_outputs(const std::string& copies) { return copies == "both" ? 3 : 2; }

// Tensors of any rank can be copied as rows: the rows of their innermost dimension.
inline int64_t row_length(const Shape& shape) { return shape[shape.rank() - 1]; }

}  // namespace recollect
