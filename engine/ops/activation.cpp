// Activations with the bias before them, one pass over memory each.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

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

}  // namespace

void register_activation(OpRegistry& registry) {
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
}

}  // namespace recollect::ops
