// The reference backend defines the meaning of every op kind, in plain loops that can be compared with
// engine/ops/ops.h by reading. It is meant to be correct, not fast: one thread, no blocking, no reordering.
// All numbers are computed and summed in f64 and rounded once, when they are stored. So the f32 instances
// differ from the f64 ones by one rounding of each stored value.
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

// Registers the two instances of one op kind. The f32 instance runs if any input is f32. Inputs that are f64
// in every run, such as the loss scale, do not matter; any other floating dtype is an Error.
void add_kernel(KernelTable& table, std::string op, Function in_double, Function in_float,
                WorkspaceBytes workspace_bytes = nullptr);

// Returns true if an input is f32. Throws kConfiguration if one is bf16 or f16.
bool runs_in_float(const OpView& view);

inline bool present(std::span<const Tensor> tensors, std::size_t i) {
  return i < tensors.size() && tensors[i].defined();
}

// Stores into an accumulator: adds if the run accumulates, else overwrites.
template <typename T>
void store(T& to, double value, bool accumulate) {
  to = static_cast<T>(accumulate ? static_cast<double>(to) + value : value);
}

// out[c] (+)= the sum over rows of from[row, c].
template <typename T>
void sum_columns(const Tensor& from, const Tensor& to, bool accumulate) {
  const T* dy = from.as<T>();
  const int64_t tokens = from.shape[0], width = from.shape[1];
  for (int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) sum += dy[t * width + c];
    store(to.as<T>()[c], sum, accumulate);
  }
}

// Writes the codes of output number `of` into the last outputs (float8.cpp).
void quantise_output(const KernelArgs& args, const Attributes& attributes, std::size_t of);
// kMake makes all outputs except the codes.
template <Function kMake, std::size_t kOf = 0>
void make_with_codes(const KernelArgs& args, const Attributes& attributes) {
  kMake(args, attributes);
  quantise_output(args, attributes, kOf);
}

// Each function is defined in the file of the same name. It registers the kernels of the op kinds that
// engine/ops/NAME.cpp defines; register.cpp calls it.
void register_activation(KernelTable& table);
void register_adafactor(KernelTable& table);
void register_attention(KernelTable& table);
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

}  // namespace recollect::reference
