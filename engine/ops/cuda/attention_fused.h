// The ops attention and attention_backward on cuDNN (attention_fused.cpp).
#pragma once

#include "engine/ops/cuda/kernels.h"

namespace recollect::cuda {

// Null for what cuDNN does not do, as is_fused() says. `libraries` is null
// where programs are only planned.
KernelPointer make_fused_attention(const OpView& view, Libraries* libraries);
KernelPointer make_fused_attention_backward(const OpView& view, Libraries* libraries);

}  // namespace recollect::cuda
