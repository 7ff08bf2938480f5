// The functions that register the cpu backend's kernels. NAME.cpp has the kernels of the op kinds that
// engine/ops/NAME.cpp defines (NAME_backward.cpp those of their gradients, if one file would be too long) and
// adds them in register_NAME(), which register.cpp calls. Every kernel divides its work among as many OpenMP
// threads as omp_get_max_threads() returned when the kernel was made.
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

// Makes K<A>, where A is the dtype of input number `input`.
template <template <typename> class K>
KernelPointer make_kernel(const OpView& view, int input = 0) {
  return with_activation_type(view.in(input).dtype, view.op.def->name,
                              [&]<typename A>() -> KernelPointer { return std::make_unique<K<A>>(view); });
}

template <template <typename> class K>
void add_kernel(KernelTable& table, const char* kind, int input = 0) {
  table.add(kind, [input](const OpView& view) { return make_kernel<K>(view, input); });
}

// The kernel of an op that add_with_codes() defined: `first` makes all outputs except the codes (float8.cpp).
KernelPointer with_codes(const OpView& view, KernelPointer first);

}  // namespace recollect::cpu
