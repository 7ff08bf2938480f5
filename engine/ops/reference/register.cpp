// Registers the reference backend's kernels: one for every op kind of engine/ops/ops.h.
#include "engine/ops/ops.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary) {
  register_activation(table);
  register_adafactor(table);
  register_attention(table);
  register_cached_attention(table);
  register_clip(table);
  register_dropout(table);
  register_embedding(table);
  register_float8(table);
  register_head_norm(table);
  register_label_loss(table);
  register_layer_norm(table);
  register_linear(table);
  register_lm_head(table, vocabulary);
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

}  // namespace recollect::reference
