// How far a device's result of an op case may lie from the exact one: derived from the number formats of its products, sums
// and outputs (tests/engine/rounding.h), and from where cuBLASLt and cuDNN round.
#pragma once

#include <optional>

#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"

namespace recollect::test {

// Own kernels use the device's quick e^x and 1/x, whose errors are some units in the last place.
inline constexpr double kDeviceFloat = 1e-5;

// cuDNN also rounds probabilities and their gradients.
inline double device_roundings(const OpCase& c) {
  const double more = c.kind == "attention_backward" ? 6 : c.kind == "attention" ? 2 : 1;
  return more * c.bf16_roundings;
}

// Whether a case's bias is added by cuBLASLt, as a number of the activations' dtype; and its number among the inputs.
inline std::optional<std::size_t> rounded_bias(const OpCase& c, DType dtype) {
  if (size_of(dtype) > 2) return std::nullopt;
  const std::size_t bias = c.kind == "linear" || c.kind == "linear_rows" || c.kind == "linear_gelu" ? 2
                           : c.kind == "lm_head_loss"                                               ? 4
                           : c.kind == "linear_fp8"                                                 ? 5
                                                    : c.inputs.size();
  if (bias >= c.inputs.size()) return std::nullopt;
  const bool own = c.kind == "linear" && c.inputs[1].shape[0] % 8 != 0;  // rows that are not whole vectors
  return own ? std::nullopt : std::optional(bias);
}

inline void round_bias(const OpCase& c, Precision precision, CaseData& data) {
  const std::optional<std::size_t> bias = rounded_bias(c, precision.activation);
  if (!bias) return;
  for (double& x : data.inputs[*bias]) {
    const auto number = static_cast<float>(x);
    x = precision.activation == DType::kBF16 ? double{bf16(number)} : double{f16(number)};
  }
}

// In units of the result's size, or of what it is added to where that is larger.
inline double device_bound(const OpCase& c, const Precision& precision) {
  const double products =
      c.kind.starts_with("linear_fp8") ? result_bound(kSumsOfFloat8, c.inputs[0].shape[1]) : 0;
  if (size_of(precision.activation) > 2) return kDeviceFloat + products;
  return device_roundings(c) * unit_roundoff(precision.activation) +
         (products > 0 ? products : result_bound(kSumsOf16Bits, longest_sum(c)));
}

}  // namespace recollect::test
