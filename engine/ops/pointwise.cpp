// Ops that touch each element once: dropout, bias and GELU, bias and dropout and residual, sums.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

void check_bias(const OpView& v, const Value& x, const Value& bias) {
  check(x.shape.rank() == 2, v, "x is [tokens, width]");
  check_shape(v, bias, {x.shape[1]});
  check(bias.dtype == statistics_dtype(x.dtype), v, "the bias has the statistics dtype");
}

OutputSpec bias_gradient(const Value& dy) {
  return {.shape = {dy.shape[1]}, .dtype = statistics_dtype(dy.dtype), .suffix = "dbias"};
}

std::vector<OutputSpec> infer_like_first(const OpView& v) { return {like(v.in(0))}; }

void dropout_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", "dropout", op.attributes, {g.upstream(op.outputs[0])}));
}

std::vector<OutputSpec> infer_bias_gelu(const OpView& v) {
  check_bias(v, v.in(0), v.in(1));
  const std::string& form = v.attributes().text("form");
  check(form == "tanh" || form == "erf", v, "form is tanh or erf");
  return {like(v.in(0))};
}

std::vector<OutputSpec> infer_bias_gelu_backward(const OpView& v) {
  check_shape(v, v.in(0), v.in(1).shape);
  check_bias(v, v.in(1), v.in(2));
  return {like(v.in(1)), bias_gradient(v.in(0))};
}

void bias_gelu_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", "bias_gelu_backward", op.attributes,
                                    {g.upstream(op.outputs[0]), op.inputs[0], op.inputs[1]},
                                    {kNone, g.accumulator(op.inputs[1])}));
}

std::vector<OutputSpec> infer_bias_dropout_add(const OpView& v) {
  check_bias(v, v.in(0), v.in(1));
  check_shape(v, v.in(2), v.in(0).shape);
  return {like(v.in(2))};
}

std::vector<OutputSpec> infer_bias_dropout_add_backward(const OpView& v) {
  return {like(v.in(0)), bias_gradient(v.in(0))};
}

void bias_dropout_add_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]), dbias = g.accumulator(op.inputs[1]);
  if (op.attributes.real("p") > 0) {
    g.contribute(op.inputs[0],
                 g.emit("backward", "bias_dropout_add_backward", op.attributes, {dy}, {kNone, dbias}));
  } else {
    g.emit("backward", "column_sum", {}, {dy}, {dbias});
    g.contribute(op.inputs[0], dy);
  }
  g.contribute(op.inputs[2], dy);
}

std::vector<OutputSpec> infer_column_sum(const OpView& v) {
  check(v.in(0).shape.rank() == 2, v, "dy is [tokens, width]");
  return {bias_gradient(v.in(0))};
}

std::vector<OutputSpec> infer_add(const OpView& v) {
  check_shape(v, v.in(1), v.in(0).shape);
  return {like(v.in(0))};
}

void add_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]);
  g.contribute(op.inputs[0], dy);
  g.contribute(op.inputs[1], dy);
}

}  // namespace

void register_pointwise(OpRegistry& registry) {
  registry.add({.name = "dropout",
                .infer = infer_like_first,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .gradient = dropout_gradient,
                .in_place = {{0, 0}},
                .group = "dropout"});
  registry.add({.name = "bias_gelu",
                .infer = infer_bias_gelu,
                .cost = [](const OpView& v) { return streaming_cost(v, 12); },
                .gradient = bias_gelu_gradient,
                .in_place = {{0, 0}},
                .group = "activation"});
  registry.add({.name = "bias_gelu_backward",
                .infer = infer_bias_gelu_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 20); },
                .in_place = {{0, 0}, {0, 1}}});
  registry.add({.name = "bias_dropout_add",
                .infer = infer_bias_dropout_add,
                .cost = [](const OpView& v) { return streaming_cost(v, 3); },
                .gradient = bias_dropout_add_gradient,
                .in_place = {{0, 0}, {0, 2}},
                .group = "dropout"});
  registry.add({.name = "bias_dropout_add_backward",
                .infer = infer_bias_dropout_add_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 2); },
                .in_place = {{0, 0}}});
  registry.add({.name = "column_sum", .infer = infer_column_sum, .cost = [](const OpView& v) {
                  return streaming_cost(v, 0);
                }});
  registry.add({.name = "add",
                .infer = infer_add,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .gradient = add_gradient,
                .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace recollect::ops
