// Multi-head attention without the score matrix (FlashAttention, Dao et al. 2022): what backward needs of the
// probabilities is one logarithm per row and head. Query heads may share key/value heads (Ainslie et al.,
// 2023), only the first keys of a sample may count, a sample may be several sequences back to back, and a query may see
// no more than a window of keys (Beltagy et al., "Longformer", 2020).
#include "engine/ops/attention.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

AttentionShape checked_shape(const OpView& v, const AttentionInputs& at) {
  const Value& q = v.in(at.q);
  for (const char* positive : {"sequence_length", "heads", "head_size", "kv_heads", "kv_group"})
    check(v.attributes().integer(positive) > 0, v, std::string(positive) + " is not positive");
  const AttentionShape shape(v, at);
  check(shape.window > 0 && shape.cap >= 0, v, "a window and a cap of scores are positive");
  check(q.shape.rank() == 2 && q.shape[1] == shape.q_row, v,
        v.has_input(at.kv) ? "q is [tokens, heads * head_size]"
                           : "qkv is [tokens, (heads + 2 * kv_heads) * head_size]");
  check(q.shape[0] % shape.length == 0, v, "tokens are whole sequences");
  check(shape.kv_unit(shape.heads - 1) == shape.kv_heads - 1, v,
        "kv_heads is the number of groups that this rank's heads belong to");
  if (v.has_input(at.kv)) {
    check_shape(v, v.in(at.kv), {q.shape[0], shape.kv_row});
    check(v.in(at.kv).dtype == q.dtype, v, "q and kv have one dtype");
  }
  if (v.has_input(at.lengths)) {
    check_shape(v, v.in(at.lengths), {shape.samples});
    check(v.in(at.lengths).dtype == DType::kI32, v, "lengths are i32");
  }
  if (v.has_input(at.positions)) {
    check(!v.has_input(at.lengths), v, "positions say what is padding, and lengths as well");
    check_shape(v, v.in(at.positions), {shape.samples, shape.length});
    check(v.in(at.positions).dtype == DType::kI32, v, "positions are i32");
  }
  return shape;
}

std::vector<OutputSpec> infer(const OpView& v) {
  const Value& q = v.in(0);
  const AttentionShape shape = checked_shape(v, kAttentionInputs);
  return {{.shape = {q.shape[0], shape.out_row}, .dtype = q.dtype, .placement = q.placement},
          {.shape = {shape.units(), shape.length},
           .dtype = statistics_dtype(q.dtype),
           .suffix = "lse",
           .placement = q.placement}};
}

std::vector<OutputSpec> infer_backward(const OpView& v) {
  const Value& q = v.in(1);
  const AttentionShape shape = checked_shape(v, kAttentionBackwardInputs);
  check_shape(v, v.in(0), {q.shape[0], shape.out_row});
  check_shape(v, v.in(2), {q.shape[0], shape.out_row});
  check_shape(v, v.in(3), {shape.units(), shape.length});
  std::vector<OutputSpec> outputs{like(q)};
  const int kv = kAttentionBackwardInputs.kv;
  if (v.has_input(kv)) outputs.push_back(like(v.in(kv), "dkv"));
  return outputs;
}

void gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId q = op.inputs[0];
  std::vector<ValueId> inputs{g.upstream(op.outputs[0]), q, op.outputs[0], op.outputs[1]};
  inputs.insert(inputs.end(), op.inputs.begin() + 1, op.inputs.end());  // kv, lengths, positions
  const ValueId dq = g.emit("backward", "attention_backward", op.attributes, std::move(inputs));
  const std::vector<ValueId> gradients = g.graph().op(g.graph().value(dq).producer).outputs;
  g.contribute(q, dq);
  if (gradients.size() > 1) g.contribute(op.inputs[1], gradients[1]);
}

// Products of [s, d] by [d, s], for the pairs that the causal mask and the window
// leave. The number of keys and the starts of sequences are not known before a run:
// this is the maximum, as if all keys counted and each sample were one sequence.
Cost attention_cost(const OpView& v, const AttentionInputs& at, double products) {
  const AttentionShape shape = checked_shape(v, at);
  Cost cost = streaming_cost(v, 0);
  cost.flops = products * static_cast<double>(shape.samples * shape.out_row) * 2 *
               static_cast<double>(shape.pairs(shape.length, shape.length));
  cost.pieces = static_cast<double>(shape.units());
  return cost;
}

}  // namespace

void register_attention(OpRegistry& registry) {
  registry.add({.name = "attention",
                .infer = infer,
                .cost = [](const OpView& v) { return attention_cost(v, kAttentionInputs, 2); },
                .gradient = gradient,
                .unit = Unit::kAttention,
                .group = "attention"});
  registry.add({.name = "attention_backward",
                .infer = infer_backward,
                .cost = [](const OpView& v) { return attention_cost(v, kAttentionBackwardInputs, 5); },
                .unit = Unit::kAttention});
}

}  // namespace recollect::ops
