// The factories of the cuda backend, one per op kind of engine/ops/ops.h; register.cpp gives them their
// names. Kernels read what changes from run to run through KernelArgs::device_state, since the step is
// recorded once and replayed. Of the host's state only `training` decides what is launched: an evaluation is
// recorded apart. Inputs and outputs are aligned as values of an arena are.
#pragma once

#include <memory>

#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

class Libraries;
using KernelPointer = std::unique_ptr<Kernel>;

KernelPointer make_embedding(const OpView& view);
KernelPointer make_embedding_backward(const OpView& view);
KernelPointer make_add_position(const OpView& view);
KernelPointer make_add_position_backward(const OpView& view);

KernelPointer make_dropout(const OpView& view);
KernelPointer make_add(const OpView& view);
KernelPointer make_bias_gelu(const OpView& view);
KernelPointer make_bias_gelu_backward(const OpView& view);
KernelPointer make_bias_dropout_add(const OpView& view);
KernelPointer make_bias_dropout_add_backward(const OpView& view);
KernelPointer make_column_sum(const OpView& view);

KernelPointer make_layer_norm(const OpView& view);
KernelPointer make_layer_norm_backward(const OpView& view);

KernelPointer make_linear(const OpView& view, Libraries* libraries);
KernelPointer make_linear_backward_input(const OpView& view, Libraries* libraries);
KernelPointer make_linear_backward_weight(const OpView& view, Libraries* libraries);

// In float arithmetic without tensor cores: for parity, and for what the fused ones do not do.
KernelPointer make_attention(const OpView& view);
KernelPointer make_attention_backward(const OpView& view);
// Null for what they do not do, f32 among it.
KernelPointer make_fused_attention(const OpView& view, Libraries* libraries);
KernelPointer make_fused_attention_backward(const OpView& view, Libraries* libraries);

// `vocabulary` may be null: then this rank holds the whole vocabulary.
KernelPointer make_lm_head_loss(const OpView& view, VocabularyReduction* vocabulary, Libraries* libraries);

KernelPointer make_squared_norm(const OpView& view);
KernelPointer make_clip_factor(const OpView& view);
KernelPointer make_adamw(const OpView& view);
KernelPointer make_adamw_hf(const OpView& view);
KernelPointer make_adam(const OpView& view);
KernelPointer make_sgd(const OpView& view);

}  // namespace recollect::cuda
