// Every op kind of engine/ops/ops.h and its kernel on CPUs.
#include "engine/ops/cpu/amx_tile.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/ops.h"

namespace recollect::cpu {

std::string instruction_set() {
#if defined(__AVX512F__)
  std::string name = "avx512";
#elif defined(__AVX2__)
  std::string name = "avx2";
#else
  std::string name = "baseline";
#endif
#ifdef RECOLLECT_AMX
  if (amx::available()) name += " + amx";
#endif
  return name;
}

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary) {
  table.add("embedding", make_embedding);
  table.add("embedding_backward", make_embedding_backward);
  table.add("add_position", make_add_position);
  table.add("add_position_backward", make_add_position_backward);
  table.add("dropout", make_dropout);
  table.add("layer_norm", make_layer_norm);
  table.add("layer_norm_backward", make_layer_norm_backward);
  table.add("linear", make_linear);
  table.add("linear_backward_input", make_linear_backward_input);
  table.add("linear_backward_weight", make_linear_backward_weight);
  table.add("attention", make_attention);
  table.add("attention_backward", make_attention_backward);
  table.add("bias_gelu", make_bias_gelu);
  table.add("bias_gelu_backward", make_bias_gelu_backward);
  table.add("bias_dropout_add", make_bias_dropout_add);
  table.add("bias_dropout_add_backward", make_bias_dropout_add_backward);
  table.add("column_sum", make_column_sum);
  table.add("add", make_add);
  table.add("lm_head_loss", [vocabulary](const OpView& view) { return make_lm_head_loss(view, vocabulary); });
  table.add("squared_norm", make_squared_norm);
  table.add("clip_factor", make_clip_factor);
  table.add("adamw", make_adamw);
  table.add("adamw_hf", make_adamw_hf);
  table.add("adam", make_adam);
  table.add("sgd", make_sgd);
}

}  // namespace recollect::cpu
