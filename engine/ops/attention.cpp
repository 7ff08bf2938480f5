// Causal multi-head attention without the score matrix (FlashAttention, Dao et al. 2022): what backward needs
// of the probabilities is one logarithm per row and head.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

struct Sizes {
  int64_t samples, heads, sequence, width;  // width: heads * head_size, this rank's
};

Sizes sizes(const OpView& v, const Value& qkv) {
  const int64_t heads = v.attributes().integer("heads"), d = v.attributes().integer("head_size");
  const int64_t s = v.attributes().integer("sequence_length");
  check(qkv.shape.rank() == 2 && qkv.shape[1] == 3 * heads * d, v, "qkv is [tokens, 3 * heads * head_size]");
  check(s > 0 && qkv.shape[0] % s == 0, v, "tokens are whole sequences");
  return {qkv.shape[0] / s, heads, s, heads * d};
}

std::vector<OutputSpec> infer(const OpView& v) {
  const Value& qkv = v.in(0);
  const Sizes z = sizes(v, qkv);
  return {{.shape = {qkv.shape[0], z.width}, .dtype = qkv.dtype, .placement = qkv.placement},
          {.shape = {z.samples * z.heads, z.sequence},
           .dtype = statistics_dtype(qkv.dtype),
           .suffix = "lse",
           .placement = qkv.placement}};
}

std::vector<OutputSpec> infer_backward(const OpView& v) {
  const Value& qkv = v.in(1);
  const Sizes z = sizes(v, qkv);
  check_shape(v, v.in(0), {qkv.shape[0], z.width});
  check_shape(v, v.in(2), {qkv.shape[0], z.width});
  check_shape(v, v.in(3), {z.samples * z.heads, z.sequence});
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
  const Sizes z = sizes(v, v.in(qkv_input));
  Cost cost = streaming_cost(v, 0);
  cost.flops = products * static_cast<double>(z.samples * z.width) * static_cast<double>(z.sequence) *
               static_cast<double>(z.sequence + 1);
  cost.pieces = static_cast<double>(z.samples * z.heads);
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
