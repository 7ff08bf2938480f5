// The number formats that a run trains in.
#pragma once

#include "engine/core/spelled.h"
#include "engine/core/tensor.h"

namespace recollect {

enum class Precision { kFP32, kBF16, kFP64, kFP16 };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<Precision> = {"fp32", "bf16", "fp64", "fp16"};

// The dtype of the master copies of parameters, which an optimizer updates. In bf16 they are the parameters
// themselves.
enum class MasterDType { kFP32, kBF16 };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<MasterDType> = {"fp32", "bf16"};

// The dtype of activations, weights and their products.
constexpr DType compute_dtype(Precision precision) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kF16};
  return kTypes[static_cast<int>(precision)];
}

}  // namespace recollect
