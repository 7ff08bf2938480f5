// Causal multi-head attention without the score matrix (FlashAttention, Dao et al. 2022): what backward needs
// of the probabilities is one logarithm per row and head.
#include "engine/ops/attention.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

AttentionShape checked_shape(const OpView& v, const Value& qkv) {
  check(v.attributes().integer("sequence_length") > 0, v, "sequences have tokens");
  const AttentionShape shape(v.attributes(), qkv.shape[0]);
  check(qkv.shape.rank() == 2 && qkv.shape[1] == shape.qkv_row(), v,
        "qkv is [tokens, 3 * heads * head_size]");
  check(qkv.shape[0] % shape.length == 0, v, "tokens are whole sequences");
  return shape;
}

std::vector<OutputSpec> infer(const OpView& v) {
  const Value& qkv = v.in(0);
  const AttentionShape shape = checked_shape(v, qkv);
  return {{.shape = {qkv.shape[0], shape.out_row()}, .dtype = qkv.dtype, .placement = qkv.placement},
          {.shape = {shape.units(), shape.length},
           .dtype = statistics_dtype(qkv.dtype),
           .suffix = "lse",
           .placement = qkv.placement}};
}

std::vector<OutputSpec> infer_backward(const OpView& v) {
  const Value& qkv = v.in(1);
  const AttentionShape shape = checked_shape(v, qkv);
  check_shape(v, v.in(0), {qkv.shape[0], shape.out_row()});
  check_shape(v, v.in(2), {qkv.shape[0], shape.out_row()});
  check_shape(v, v.in(3), {shape.units(), shape.length});
  return {like(qkv)};
}

void gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId qkv = op.inputs[0];
  g.contribute(qkv, g.emit("backward", "attention_backward", op.attributes,
                           {g.upstream(op.outputs[0]), qkv, op.outputs[0], op.outputs[1]}));
}

// Products of [s, d] by [d, s], halved by the causal mask.
Cost attention_cost(const OpView& v, int qkv_input, double products) {
  const AttentionShape shape = checked_shape(v, v.in(qkv_input));
  Cost cost = streaming_cost(v, 0);
  cost.flops = products * static_cast<double>(shape.samples * shape.out_row()) *
               static_cast<double>(shape.length) * static_cast<double>(shape.length + 1);
  cost.pieces = static_cast<double>(shape.units());
  return cost;
}

}  // namespace

void register_attention(OpRegistry& registry) {
  registry.add({.name = "attention",
                .infer = infer,
                .cost = [](const OpView& v) { return attention_cost(v, 0, 2); },
                .gradient = gradient,
                .unit = Unit::kAttention,
                .group = "attention"});
  registry.add({.name = "attention_backward",
                .infer = infer_backward,
                .cost = [](const OpView& v) { return attention_cost(v, 1, 5); },
                .unit = Unit::kAttention});
}

}  // namespace recollect::ops
