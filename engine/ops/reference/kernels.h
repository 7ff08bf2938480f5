// The reference backend: the meaning of every op kind, in loops that can be checked against engine/ops/ops.h
// by reading. It exists to be right, not fast: one thread, no blocking, no reordering. Everything is computed
// and summed in double and rounded once, when stored, so the float instances differ from the double ones by
// one rounding of each stored value.
//
// An output may share its memory with an input of the same shape: every kernel reads an element for the last
// time before it writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/ops/ops.h"

namespace recollect::reference {

using Function = void (*)(const KernelArgs&, const Attributes&);
using WorkspaceBytes = std::size_t (*)(const OpView&);

// Registers the two instances of one op kind. The float one runs where any input is f32 (the numbers that are
// f64 in every run, such as the loss scale, do not decide); any other floating dtype is an Error.
void add_kernel(KernelTable& table, std::string op, Function in_double, Function in_float,
                WorkspaceBytes workspace_bytes = nullptr);

// Throws kConfiguration where an input is bf16 or f16; true where one is f32.
bool runs_in_float(const OpView& view);

inline bool present(std::span<const Tensor> tensors, std::size_t i) {
  return i < tensors.size() && tensors[i].defined();
}

// Stores into an accumulator: adds where the run accumulates, else overwrites.
template <typename T>
void store(T& to, double value, bool accumulate) {
  to = static_cast<T>(accumulate ? static_cast<double>(to) + value : value);
}

void register_embedding(KernelTable& table);  // embedding, add_position and their gradients
void register_dropout(KernelTable& table);    // dropout, bias_dropout_add
void register_layer_norm(KernelTable& table);
void register_linear(KernelTable& table);  // linear, column_sum
void register_attention(KernelTable& table);
void register_activation(KernelTable& table);  // bias_gelu, add
void register_lm_head_loss(KernelTable& table, VocabularyReduction* vocabulary);
void register_clipping(KernelTable& table);  // squared_norm, clip_factor
void register_optimizers(KernelTable& table);

}  // namespace recollect::reference
