// How the cpu backend's kernels are registered: a file of this folder has the kernels of the op kinds that
// the file of the same name in engine/ops defines (where those would be long, NAME_backward.cpp has the
// gradients'), and adds them in a function that is listed here and called in register.cpp. Every kernel
// divides its work among the OpenMP threads that omp_get_max_threads() promised when it was made.
#pragma once

#include <memory>

#include "engine/ops/cpu/element.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cpu {

void register_activation(KernelTable& table);
void register_adafactor(KernelTable& table);
void register_attention(KernelTable& table);
void register_attention_backward(KernelTable& table);
void register_cached_attention(KernelTable& table);
void register_clip(KernelTable& table);
void register_dropout(KernelTable& table);
void register_embedding(KernelTable& table);
void register_float8(KernelTable& table);
void register_head_norm(KernelTable& table);
void register_label_loss(KernelTable& table);
void register_layer_norm(KernelTable& table);
void register_linear(KernelTable& table);
void register_lm_head(KernelTable& table, VocabularyReduction* vocabulary);
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

// Makes K<A>, where A is the dtype of the input of that number.
template <template <typename> class K>
KernelPointer make_kernel(const OpView& view, int input = 0) {
  return with_activation_type(view.in(input).dtype, view.op.def->name,
                              [&]<typename A>() -> KernelPointer { return std::make_unique<K<A>>(view); });
}

template <template <typename> class K>
void add_kernel(KernelTable& table, const char* kind, int input = 0) {
  table.add(kind, [input](const OpView& view) { return make_kernel<K>(view, input); });
}

// Of an op that add_with_codes has defined: `first` makes all outputs but the codes (float8.cpp).
KernelPointer with_codes(const OpView& view, KernelPointer first);

}  // namespace recollect::cpu
