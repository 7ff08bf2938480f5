// RMS norms of single heads: each of the first heads of a row is normalised alone; heads of a kind (queries
// or keys) share weights. Backward recomputes a head's statistic from the same numbers: only x is saved.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

void check_head_weight(const OpView& v, const Value& x, const Value& weight, int64_t size) {
  check_shape(v, weight, {size});
  check(weight.dtype == statistics_dtype(x.dtype), v, "weights have the statistics dtype");
}

// `x`: the number of that input; the weights are the next inputs.
void check_heads_of_norm(const OpView& v, int x) {
  const Value& value = v.in(x);
  const int64_t size = v.in(x + 1).shape.elements(), first = v.attributes().integer("heads"),
                second = v.attributes().integer("second_heads");
  check(value.shape.rank() == 2 && size > 0 && (first + second) * size <= value.shape[1], v,
        "x has the heads in its rows");
  check(first > 0 && second >= 0 && v.has_input(x + 2) == (second > 0), v, "each kind of heads has a weight");
  check_head_weight(v, value, v.in(x + 1), size);
  if (second > 0) check_head_weight(v, value, v.in(x + 2), size);
  v.attributes().real("epsilon");
}

std::vector<OutputSpec> infer_head_norm(const OpView& v) {
  check_heads_of_norm(v, 0);
  return {like(v.in(0))};
}

std::vector<OutputSpec> infer_head_norm_backward(const OpView& v) {
  check_heads_of_norm(v, 1);
  check_shape(v, v.in(0), v.in(1).shape);
  std::vector<OutputSpec> outputs{like(v.in(1)), gradient_like(v.in(2), "dweight")};
  if (v.has_input(3)) outputs.push_back(gradient_like(v.in(3), "dsecond"));
  return outputs;
}

void head_norm_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  std::vector<ValueId> inputs = op.inputs, outputs = g.accumulators({inputs.begin() + 1, inputs.end()});
  inputs.insert(inputs.begin(), g.upstream(op.outputs[0]));
  outputs.insert(outputs.begin(), kNone);
  g.contribute(op.inputs[0], g.emit("backward", "head_norm_backward", op.attributes, std::move(inputs),
                                    std::move(outputs)));
}

}  // namespace

void register_head_norm(OpRegistry& registry) {
  registry.add({.name = "head_norm",
                .infer = infer_head_norm,
                .cost = [](const OpView& v) { return streaming_cost(v, 5); },
                .gradient = head_norm_gradient,
                .in_place = {{0, 0}},
                .normalises = true,
                .group = "norm",
                .measured_as = "layer_norm"});
  registry.add({.name = "head_norm_backward",
                .infer = infer_head_norm_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 14); },
                .in_place = {{0, 0}},
                .normalises = true,
                .measured_as = "layer_norm_backward"});
}

}  // namespace recollect::ops
