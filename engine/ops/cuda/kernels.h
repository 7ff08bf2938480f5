// How the cuda backend's kernels are registered: a file of this folder has the kernels of the op kinds that
// the file of the same name in engine/ops defines (where those would be long, NAME_backward.cu has the
// gradients'), and adds them in a function that is listed here and called in register.cpp. Kernels read what
// changes from run to run through KernelArgs::device_state, since the step is recorded once and replayed. Of
// the host's state only `training` decides what is launched: an evaluation is recorded apart. Inputs and
// outputs are aligned as values of an arena are.
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

KernelPointer make_column_sum(const OpView& view);  // part of linear's gradient as well
// y = gelu(x) in the tanh form, and dx = dy gelu'(x), where no product ends with them (linear.cpp).
KernelPointer make_pass_of_gelu(const OpView& view);
KernelPointer make_pass_of_gelu_gradient(const OpView& view);
// out[c] (+)= the sum over p < count of partials[p, c].
void finish_sums(const float* partials, int64_t count, int64_t width, float* out, bool accumulate,
                 void* stream);

}  // namespace recollect::cuda
