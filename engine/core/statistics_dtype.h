// The dtype of statistics, biases, norm weights and parameter gradients, for activations of a given dtype.
#pragma once

#include "engine/core/dtype.h"

namespace recollect {

constexpr DType statistics_dtype(DType a) { return a == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace recollect
