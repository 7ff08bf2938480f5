// Every op kind of engine/ops/ops.h and its kernel on GPUs.
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/ops.h"

namespace recollect::cuda {

namespace {

using Plain = KernelPointer (*)(const OpView&);
using WithLibraries = KernelPointer (*)(const OpView&, Libraries*);

}  // namespace

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary, Libraries* libraries) {
  const auto add = [&](const char* op, WithLibraries make) {
    table.add(op, [make, libraries](const OpView& view) { return make(view, libraries); });
  };
  const auto add_fused = [&](const char* op, WithLibraries fused, Plain plain) {
    table.add(op, [fused, plain, libraries](const OpView& view) {
      KernelPointer kernel = fused(view, libraries);
      return kernel ? std::move(kernel) : plain(view);
    });
  };
  table.add("embedding", make_embedding);
  table.add("embedding_backward", make_embedding_backward);
  table.add("add_position", make_add_position);
  table.add("add_position_backward", make_add_position_backward);
  table.add("dropout", make_dropout);
  table.add("layer_norm", make_layer_norm);
  table.add("layer_norm_backward", make_layer_norm_backward);
  add("linear", make_linear);
  add("linear_backward_input", make_linear_backward_input);
  add("linear_backward_weight", make_linear_backward_weight);
  add_fused("attention", make_fused_attention, make_attention);
  add_fused("attention_backward", make_fused_attention_backward, make_attention_backward);
  table.add("bias_gelu", make_bias_gelu);
  table.add("bias_gelu_backward", make_bias_gelu_backward);
  table.add("bias_dropout_add", make_bias_dropout_add);
  table.add("bias_dropout_add_backward", make_bias_dropout_add_backward);
  table.add("column_sum", make_column_sum);
  table.add("add", make_add);
  table.add("lm_head_loss", [vocabulary, libraries](const OpView& view) {
    return make_lm_head_loss(view, vocabulary, libraries);
  });
  table.add("squared_norm", make_squared_norm);
  table.add("clip_factor", make_clip_factor);
  table.add("adamw", make_adamw);
  table.add("adamw_hf", make_adamw_hf);
  table.add("adam", make_adam);
  table.add("sgd", make_sgd);
}

}  // namespace recollect::cuda
