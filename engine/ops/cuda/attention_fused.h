// The ops attention and attention_backward on cuDNN (attention_fused.cpp).
#pragma once

#include "engine/ops/cuda/kernels.h"

namespace recollect::cuda {

// Null if cuDNN does not take the case (is_fused()). `libraries` is null
// where programs are only planned.
KernelPointer make_fused_attention(const OpView& view, Libraries* libraries);
KernelPointer make_fused_attention_backward(const OpView& view, Libraries* libraries);

}  // namespace recollect::cuda
