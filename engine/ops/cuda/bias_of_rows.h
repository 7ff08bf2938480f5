// A bias that is added to a product in float, and one rounding: cuBLASLt rounds the bias first, and rounds products whose rows
// are not whole vectors before it adds.
#pragma once

#include "engine/core/tensor.h"

namespace recollect::cuda {

// out[i] = product[i] + bias[i % width].
void add_bias_of_rows(const float* product, const float* bias, int64_t width, const Tensor& out,
                      void* stream);

}  // namespace recollect::cuda
