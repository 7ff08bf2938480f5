// Layer normalisation (Ba et al., 2016), and that by the root mean square alone (Zhang and Sennrich, 2019),
// which has neither a mean nor a bias. Layer normalisation has a bias or none. The backward ops can add the residual branch's gradient on their way.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

void check_operands(const OpView& v, const Value& x, const Value& weight) {
  check(x.shape.rank() == 2, v, "x is [tokens, hidden]");
  check_shape(v, weight, {x.shape[1]});
  check(weight.dtype == statistics_dtype(x.dtype), v, "weight and bias have the statistics dtype");
}

OutputSpec statistic(const Value& x, std::string suffix) {
  return {.shape = {x.shape[0]},
          .dtype = statistics_dtype(x.dtype),
          .suffix = std::move(suffix),
          .placement = x.placement};
}

std::vector<OutputSpec> infer(const OpView& v) {
  const Value& x = v.in(0);
  check_operands(v, x, v.in(1));
  if (v.has_input(2)) check_operands(v, x, v.in(2));
  return {like(x), statistic(x, "mean"), statistic(x, "rstd")};
}

std::vector<OutputSpec> infer_rms(const OpView& v) {
  const Value& x = v.in(0);
  check_operands(v, x, v.in(1));
  return {like(x), statistic(x, "rstd")};
}

std::vector<OutputSpec> infer_residual_norm(const OpView& v) {
  const Value& x = v.in(0);
  check_bias(v, x, v.in(1));
  check_shape(v, v.in(2), x.shape);
  check_operands(v, x, v.in(3));
  if (v.has_input(4)) check_operands(v, x, v.in(4));
  return {like(v.in(2)), like(v.in(2), "norm"), statistic(v.in(2), "mean"), statistic(v.in(2), "rstd")};
}

std::vector<OutputSpec> infer_backward(const OpView& v) {
  const Value &dy = v.in(0), &x = v.in(1), &weight = v.in(2);
  check_shape(v, dy, x.shape);
  check_operands(v, x, weight);
  if (v.has_input(5)) check_shape(v, v.in(5), x.shape);
  std::vector<OutputSpec> specs{like(x), gradient_like(weight, "dweight")};
  if (v.op.outputs.size() != 2) specs.push_back(gradient_like(weight, "dbias"));
  return specs;
}

std::vector<OutputSpec> infer_rms_backward(const OpView& v) {
  const Value &dy = v.in(0), &x = v.in(1), &weight = v.in(2);
  check_shape(v, dy, x.shape);
  check_operands(v, x, weight);
  check_shape(v, v.in(3), {x.shape[0]});
  if (v.has_input(4)) check_shape(v, v.in(4), x.shape);
  return {like(x), gradient_like(weight, "dweight")};
}

void gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId x = op.inputs[0];
  const ValueId earlier = g.take(x);
  std::vector<ValueId> outputs = g.accumulators({op.inputs.begin() + 1, op.inputs.end()});
  outputs.insert(outputs.begin(), kNone);
  const ValueId dx =
      g.emit("backward", "layer_norm_backward", op.attributes,
             {g.upstream(op.outputs[0]), x, op.inputs[1], op.outputs[1], op.outputs[2], earlier},
             std::move(outputs));
  g.contribute(x, dx);
}

void rms_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId x = op.inputs[0];
  const ValueId earlier = g.take(x);
  g.contribute(x, g.emit("backward", "rms_norm_backward", op.attributes,
                         {g.upstream(op.outputs[0]), x, op.inputs[1], op.outputs[1], earlier},
                         {kNone, g.accumulator(op.inputs[1])}));
}

}  // namespace

void register_layer_norm(OpRegistry& registry) {
  registry.add({.name = "layer_norm",
                .infer = infer,
                .cost = [](const OpView& v) { return streaming_cost(v, 8); },
                .gradient = gradient,
                .normalises = true,
                .group = "norm",
                .joint = {.next = "quantise", .joined = "layer_norm_quantise"}});
  registry.add({.name = "layer_norm_backward",
                .infer = infer_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 16); },
                .in_place = {{0, 0}},
                .normalises = true});
  registry.add({.name = "residual_norm",
                .infer = infer_residual_norm,
                .cost = [](const OpView& v) { return streaming_cost(v, 10); },
                .in_place = {{0, 0}, {1, 2}},
                .normalises = true,
                .group = "norm",
                .measured_as = "layer_norm",
                .joint = {.next = "quantise", .joined = "residual_norm_quantise", .output = 1}});
  registry.add({.name = "rms_norm",
                .infer = infer_rms,
                .cost = [](const OpView& v) { return streaming_cost(v, 5); },
                .gradient = rms_gradient,
                .normalises = true,
                .group = "norm",
                .measured_as = "layer_norm",
                .joint = {.next = "quantise", .joined = "rms_norm_quantise"}});
  registry.add({.name = "rms_norm_backward",
                .infer = infer_rms_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 11); },
                .in_place = {{0, 0}},
                .normalises = true,
                .measured_as = "layer_norm_backward"});
  for (const char* kind : {"layer_norm", "residual_norm", "rms_norm"}) add_with_codes(registry, kind);
}

}  // namespace recollect::ops
