// Defines dropout, alone and fused with the bias before it and the residual after it.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer_like_first(const OpView& v) { return {like(v.in(0))}; }

void dropout_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", "dropout", op.attributes, {g.upstream(op.outputs[0])}));
}

std::vector<OutputSpec> infer_bias_dropout_add(const OpView& v) {
  check_bias(v, v.in(0), v.in(1));
  check_shape(v, v.in(2), v.in(0).shape);
  return {like(v.in(2))};
}

bool drops_nothing(const Op& op) { return op.attributes.real("p") == 0; }

std::vector<OutputSpec> infer_bias_dropout_add_backward(const OpView& v) {
  return {like(v.in(0)), bias_gradient(v.in(0))};
}

void bias_dropout_add_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]), dbias = g.accumulator(op.inputs[1]);
  if (op.attributes.real("p") > 0) {
    if (dbias != kNone || g.wanted(op.inputs[0]))
      g.contribute(op.inputs[0],
                   g.emit("backward", "bias_dropout_add_backward", op.attributes, {dy}, {kNone, dbias}));
  } else {
    if (dbias != kNone) g.emit("backward", "column_sum", {}, {dy}, {dbias});
    g.contribute(op.inputs[0], dy);
  }
  g.contribute(op.inputs[2], dy);
}

}  // namespace

void register_dropout(OpRegistry& registry) {
  registry.add({.name = "dropout",
                .infer = infer_like_first,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .gradient = dropout_gradient,
                .in_place = {{0, 0}},
                .group = "dropout"});
  registry.add({.name = "bias_dropout_add",
                .infer = infer_bias_dropout_add,
                .cost = [](const OpView& v) { return streaming_cost(v, 3); },
                .gradient = bias_dropout_add_gradient,
                .in_place = {{0, 0}, {0, 2}},
                .group = "dropout",
                .joint = {.next = "layer_norm", .joined = "residual_norm", .fits = drops_nothing}});
  registry.add({.name = "bias_dropout_add_backward",
                .infer = infer_bias_dropout_add_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 2); },
                .in_place = {{0, 0}}});
}

}  // namespace recollect::ops
