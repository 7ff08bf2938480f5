// The functions that register the cuda backend's kernels. NAME.cu has the kernels of the op kinds that
// engine/ops/NAME.cpp defines (NAME_backward.cu those of their gradients, if one file would be too long) and
// adds them in register_NAME(), which register.cpp calls. The kernels of a step are recorded once as a CUDA
// graph and replayed, so they read numbers that change from run to run from KernelArgs::device_state. Which
// kernels are launched may depend on the host's `training` only, because an evaluation is recorded
// separately. Inputs and outputs are aligned as values of an arena are.
#pragma once

#include <memory>

#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

class Libraries;

void register_activation(KernelTable& table);
void register_adafactor(KernelTable& table);
void register_attention(KernelTable& table, Libraries* libraries);
void register_attention_backward(KernelTable& table, Libraries* libraries);
void register_cached_attention(KernelTable& table);
void register_clip(KernelTable& table);
void register_dropout(KernelTable& table);
void register_embedding(KernelTable& table);
void register_embedding_backward(KernelTable& table);
void register_float8(KernelTable& table, Libraries* libraries);
void register_head_norm(KernelTable& table);
void register_label_loss(KernelTable& table);
void register_layer_norm(KernelTable& table);
void register_layer_norm_backward(KernelTable& table);
void register_linear(KernelTable& table, Libraries* libraries);
void register_lm_head(KernelTable& table, VocabularyReduction* vocabulary, Libraries* libraries);
void register_lm_logits(KernelTable& table);
void register_muon(KernelTable& table);
void register_optimizer(KernelTable& table);
void register_quantised_states(KernelTable& table);
void register_quantised_weight(KernelTable& table);
void register_rotary(KernelTable& table);
void register_scaled_columns(KernelTable& table);
void register_sequences(KernelTable& table);
void register_sum(KernelTable& table);

using KernelPointer = std::unique_ptr<Kernel>;

KernelPointer make_column_sum(const OpView& view);  // also used in linear's gradient
// y = gelu(x) in the tanh form, and dx = dy * gelu'(x), for products without a GELU epilogue (linear.cpp).
KernelPointer make_pass_of_gelu(const OpView& view);
KernelPointer make_pass_of_gelu_gradient(const OpView& view);
// out[c] (+)= the sum over p < count of partials[p, c].
void finish_sums(const float* partials, int64_t count, int64_t width, float* out, bool accumulate,
                 void* stream);

}  // namespace recollect::cuda
