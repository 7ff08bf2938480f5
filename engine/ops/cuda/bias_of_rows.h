// Adds a bias to a product in float, with one rounding at the end. cuBLASLt would round the bias first, and
// would round a product whose rows are not whole vectors before adding.
#pragma once

#include "engine/core/tensor.h"

namespace recollect::cuda {

// out[i] = product[i] + bias[i % width].
void add_bias_of_rows(const float* product, const float* bias, int64_t width, const Tensor& out,
                      void* stream);

}  // namespace recollect::cuda
