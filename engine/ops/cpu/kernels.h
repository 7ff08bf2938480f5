// The factories of the cpu backend, one per op kind of engine/ops/ops.h; register.cpp gives them their names.
// Every kernel divides its work among the OpenMP threads that omp_get_max_threads() promised when it was
// made.
#pragma once

#include <memory>

#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cpu {

using KernelPointer = std::unique_ptr<Kernel>;

KernelPointer make_embedding(const OpView& view);
KernelPointer make_embedding_backward(const OpView& view);
KernelPointer make_add_position(const OpView& view);
KernelPointer make_add_position_backward(const OpView& view);

KernelPointer make_dropout(const OpView& view);
KernelPointer make_bias_gelu(const OpView& view);
KernelPointer make_bias_gelu_backward(const OpView& view);
KernelPointer make_bias_dropout_add(const OpView& view);
KernelPointer make_bias_dropout_add_backward(const OpView& view);
KernelPointer make_column_sum(const OpView& view);
KernelPointer make_add(const OpView& view);

KernelPointer make_layer_norm(const OpView& view);
KernelPointer make_layer_norm_backward(const OpView& view);

KernelPointer make_linear(const OpView& view);
KernelPointer make_linear_backward_input(const OpView& view);
KernelPointer make_linear_backward_weight(const OpView& view);

KernelPointer make_attention(const OpView& view);
KernelPointer make_attention_backward(const OpView& view);
// For bf16 where the processor has AMX; null elsewhere.
KernelPointer make_amx_attention(const OpView& view);
KernelPointer make_amx_attention_backward(const OpView& view);

// `vocabulary` may be null: then this rank holds the whole vocabulary.
KernelPointer make_lm_head_loss(const OpView& view, VocabularyReduction* vocabulary);

KernelPointer make_squared_norm(const OpView& view);
KernelPointer make_clip_factor(const OpView& view);
KernelPointer make_adamw(const OpView& view);
KernelPointer make_adamw_hf(const OpView& view);
KernelPointer make_adam(const OpView& view);
KernelPointer make_sgd(const OpView& view);

}  // namespace recollect::cpu
