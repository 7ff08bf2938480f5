// Registers the cuda backend's kernels: one for every op kind of engine/ops/ops.h.
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/ops.h"

namespace recollect::cuda {

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary, Libraries* libraries) {
  register_activation(table);
  register_adafactor(table);
  register_attention(table, libraries);
  register_attention_backward(table, libraries);
  register_cached_attention(table);
  register_clip(table);
  register_dropout(table);
  register_embedding(table);
  register_embedding_backward(table);
  register_float8(table, libraries);
  register_head_norm(table);
  register_label_loss(table);
  register_layer_norm(table);
  register_layer_norm_backward(table);
  register_linear(table, libraries);
  register_lm_head(table, vocabulary, libraries);
  register_lm_logits(table);
  register_muon(table);
  register_optimizer(table);
  register_quantised_states(table);
  register_quantised_weight(table);
  register_rotary(table);
  register_scaled_columns(table);
  register_sequences(table);
  register_sum(table);
}

}  // namespace recollect::cuda
