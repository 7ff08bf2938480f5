#include "engine/ops/ops.h"

#include "engine/ops/cpu_level.h"
#include "engine/ops/define.h"

namespace recollect {

namespace ops {

Cost streaming_cost(const OpView& view, double flops_per_element) {
  Cost cost;
  for (ValueId in : view.op.inputs)
    if (in != kNone) cost.bytes += static_cast<double>(view.graph.value(in).bytes());
  for (ValueId out : view.op.outputs)
    if (out != kNone) cost.bytes += static_cast<double>(view.graph.value(out).bytes());
  if (!view.op.outputs.empty() && view.op.outputs[0] != kNone)
    cost.flops = flops_per_element * static_cast<double>(view.out(0).shape.elements());
  return cost;
}

}  // namespace ops

void register_engine_ops(OpRegistry& registry) {
  ops::register_activation(registry);
  ops::register_adafactor(registry);
  ops::register_attention(registry);
  ops::register_cached_attention(registry);
  ops::register_clip(registry);
  ops::register_dropout(registry);
  ops::register_embedding(registry);
  ops::register_float8(registry);
  ops::register_head_norm(registry);
  ops::register_label_loss(registry);
  ops::register_layer_norm(registry);
  ops::register_linear(registry);
  ops::register_lm_head(registry);
  ops::register_lm_logits(registry);
  ops::register_muon(registry);
  ops::register_optimizer(registry);
  ops::register_quantised_states(registry);
  ops::register_quantised_weight(registry);
  ops::register_rotary(registry);
  ops::register_scaled_columns(registry);
  ops::register_sequences(registry);
  ops::register_sum(registry);
}

RegisterKernels kernels_of(BackendKind backend, CpuIsa isa, cuda::Libraries* libraries) {
  switch (backend) {
    case BackendKind::kReference:
      return reference::register_kernels;
    case BackendKind::kCpu:
      return cpu_level(isa).register_kernels;
    case BackendKind::kCuda:
      return [libraries](KernelTable& table, VocabularyReduction* vocabulary) {
        cuda::register_kernels(table, vocabulary, libraries);
      };
  }
  throw Error(ExitCode::kInternal, "unknown backend");
}

}  // namespace recollect
