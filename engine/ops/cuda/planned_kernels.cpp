#include "engine/ops/cuda/planned_kernels.h"

#include "engine/ops/cuda/attention_workspace.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/ops.h"

namespace recollect::cuda {

namespace {

using Bytes = std::function<std::size_t(const OpView&)>;

class PlannedKernel : public Kernel {
 public:
  explicit PlannedKernel(std::size_t bytes) : bytes_(bytes) {}
  std::size_t workspace_bytes() const override { return bytes_; }
  void run(const KernelArgs&) override {
    throw Error(ExitCode::kInternal, "an op that is only planned is run");
  }

 private:
  std::size_t bytes_;
};

std::size_t attention_bytes(const OpView& view, const AttentionInputs& at, const char* kind) {
  if (is_fused(view, at)) return FusedAttentionWorkspace(view, at).bytes();
  const AttentionShape shape(view, at);
  check_tiled_head(shape.head_size, kind);
  return at.q == kAttentionBackwardInputs.q ? tiled_backward_bytes(shape) : 0;
}

// Workspaces by op kind. Kinds that are not listed need none.
std::map<std::string, Bytes> all_workspaces(bool divided_vocabulary) {
  const auto of_shape = [](GemmShape (*shape)(const OpView&)) {
    return [shape](const OpView& view) { return workspace_bytes_of(shape(view)); };
  };
  const auto of_activation = [](int runs) {
    return [runs](const OpView& view) { return code_bytes(parts_of(walk_of_activation(view, runs))); };
  };
  const Bytes column_sums = [](const OpView& view) { return walk_of(view.in(0)).partial_bytes(1); };
  const Bytes norm_codes = [](const OpView& view) { return code_bytes(NormRowsCut(view).blocks()); };
  return {
      {"adafactor_moments", [](const OpView& view) { return AdafactorCut(view, 2).moment_bytes(); }},
      {"adafactor_sums", [](const OpView& view) { return AdafactorCut(view, 1).sum_bytes(); }},
      {"add_embedding_backward", add_embedding_backward_bytes},
      {"attention", [](const OpView& view) { return attention_bytes(view, kAttentionInputs, "attention"); }},
      {"attention_backward",
       [](const OpView& view) {
         return attention_bytes(view, kAttentionBackwardInputs, "attention_backward");
       }},
      {"bias_dropout_add_backward",
       [](const OpView& view) { return walk_of_dropping(view).partial_bytes(1); }},
      {"bias_gelu_backward", column_sums},
      {"bias_gelu_quantise", of_activation(1)},
      {"column_sum", column_sums},
      {"cross_entropy_loss", class_loss_bytes},
      {"elementwise_loss", number_loss_bytes},
      {"embedding_backward", [](const OpView& view) { return table_workspace(view).bytes(); }},
      {"head_norm_backward", [](const OpView& view) { return HeadNormCut(view, 1).bytes(); }},
      {"layer_norm_backward", [](const OpView& view) { return NormBackwardWorkspace(view, true).bytes(); }},
      {"layer_norm_quantise", norm_codes},
      {"linear",
       [](const OpView& view) {
         const GemmShape shape = shape_of_linear(view);
         return adds_bias_after(shape) ? workspace_bytes_with_bias_after(shape) : workspace_bytes_of(shape);
       }},
      {"linear_backward_input", of_shape(shape_of_linear_backward_input)},
      {"linear_backward_input_gelu", of_shape(shape_of_linear_backward_input)},
      {"linear_backward_weight",
       [](const OpView& view) {
         const GemmShape shape = shape_of_linear_backward_weight(view);
         if (view.attributes().integer("bias") == 0) return workspace_bytes_of(shape);
         return weight_and_bias_bytes(shape, walk_of(view.in(1)).partial_bytes(1));
       }},
      {"linear_fp8", of_shape(shape_of_linear_fp8)},
      {"linear_fp8_backward_input", of_shape(shape_of_linear_fp8)},
      {"linear_fp8_backward_weight", of_shape(shape_of_linear_fp8_backward_weight)},
      {"linear_gelu", of_shape(shape_of_linear)},
      {"linear_rows", of_shape(shape_of_linear_rows)},
      {"lm_head_loss", [=](const OpView& view) { return HeadWorkspace(view, divided_vocabulary).bytes(); }},
      {"muon_direction", muon_direction_bytes},
      {"quantise", [](const OpView& view) { return code_bytes(parts_of_value(view)); }},
      {"residual_norm_quantise", norm_codes},
      {"rms_norm_backward", [](const OpView& view) { return NormBackwardWorkspace(view, false).bytes(); }},
      {"rms_norm_quantise", norm_codes},
      {"squared_norm", [](const OpView& view) { return SquaredNormCut(view).bytes(); }},
      {"swiglu_backward_quantise", of_activation(2)},
      {"swiglu_quantise", of_activation(1)},
  };
}

}  // namespace

bool attention_is_fused(const OpView& view) { return is_fused(view, kAttentionInputs); }

void add_planned_kernels(KernelTable& table, const VocabularyReduction* vocabulary) {
  OpRegistry registry;
  register_engine_ops(registry);
  const std::map<std::string, Bytes> workspaces = all_workspaces(vocabulary != nullptr);
  for (const OpDef* def : registry.all()) {
    const auto found = workspaces.find(def->name);
    table.add(def->name, [bytes = found == workspaces.end() ? Bytes() : found->second](const OpView& view) {
      return std::make_unique<PlannedKernel>(bytes ? bytes(view) : 0);
    });
  }
}

}  // namespace recollect::cuda
