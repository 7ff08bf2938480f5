// Defines the activation ops, each one pass over memory: GELU with or without a bias (linear.cpp has GELU as a product's
// epilogue), SwiGLU and GeGLU (Shazeer, 2020), tanh, and ReLU.
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

void check_form(const OpView& v) {
  const std::string form = v.attributes().has("form") ? v.attributes().text("form") : "tanh";
  check(form == "tanh" || form == "erf", v, "form is tanh or erf");
}

std::vector<OutputSpec> infer_gelu(const OpView& v) {
  check(v.in(0).shape.rank() == 2, v, "x is [rows, width]");
  check_form(v);
  return {like(v.in(0))};
}

std::vector<OutputSpec> infer_gelu_backward(const OpView& v) {
  check_shape(v, v.in(0), v.in(1).shape);
  check_form(v);
  return {like(v.in(1))};
}

// For gelu, swiglu and geglu: their gradients read what they have read.
void gradient_of_input(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", op.def->name + "_backward", op.attributes,
                                    {g.upstream(op.outputs[0]), op.inputs[0]}));
}

std::vector<OutputSpec> infer_swiglu(const OpView& v) {
  const Value& x = v.in(0);
  check(x.shape.rank() == 2 && x.shape[1] % 2 == 0, v, "x is [tokens, 2 * width], gate | up");
  return {{.shape = {x.shape[0], x.shape[1] / 2}, .dtype = x.dtype, .placement = x.placement}};
}

std::vector<OutputSpec> infer_swiglu_backward(const OpView& v) {
  const Value &dy = v.in(0), &x = v.in(1);
  check(x.shape.rank() == 2 && x.shape[1] % 2 == 0, v, "x is [tokens, 2 * width], gate | up");
  check_shape(v, dy, {x.shape[0], x.shape[1] / 2});
  return {like(x)};
}

std::vector<OutputSpec> infer_geglu(const OpView& v) {
  check_form(v);
  return infer_swiglu(v);
}

std::vector<OutputSpec> infer_geglu_backward(const OpView& v) {
  check_form(v);
  return infer_swiglu_backward(v);
}

std::vector<OutputSpec> infer_tanh(const OpView& v) {
  check(v.in(0).shape.rank() == 2, v, "x is [rows, width]");
  return {like(v.in(0))};
}

std::vector<OutputSpec> infer_tanh_backward(const OpView& v) {
  check(v.in(1).shape.rank() == 2, v, "y is [rows, width]");
  check_shape(v, v.in(0), v.in(1).shape);
  return {like(v.in(1))};
}

// For tanh and relu: their gradients read what they have made.
void gradient_of_output(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", op.def->name + "_backward", {},
                                    {g.upstream(op.outputs[0]), op.outputs[0]}));
}

}  // namespace

void register_activation(OpRegistry& registry) {
  registry.add({.name = "bias_gelu",
                .infer = infer_bias_gelu,
                .cost = [](const OpView& v) { return streaming_cost(v, 12); },
                .gradient = bias_gelu_gradient,
                .in_place = {{0, 0}},
                .group = "activation",
                .joint = {.next = "quantise", .joined = "bias_gelu_quantise"}});
  registry.add({.name = "bias_gelu_backward",
                .infer = infer_bias_gelu_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 20); },
                .in_place = {{0, 0}, {0, 1}}});
  registry.add({.name = "gelu",
                .infer = infer_gelu,
                .cost = [](const OpView& v) { return streaming_cost(v, 12); },
                .gradient = gradient_of_input,
                .in_place = {{0, 0}},
                .group = "activation",
                .measured_as = "bias_gelu"});
  registry.add({.name = "gelu_backward",
                .infer = infer_gelu_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 20); },
                .in_place = {{0, 0}, {0, 1}},
                .measured_as = "bias_gelu_backward"});
  registry.add({.name = "swiglu",
                .infer = infer_swiglu,
                .cost = [](const OpView& v) { return streaming_cost(v, 8); },
                .gradient = gradient_of_input,
                .group = "activation",
                .measured_as = "bias_gelu",
                .joint = {.next = "quantise", .joined = "swiglu_quantise"}});
  registry.add({.name = "swiglu_backward",
                .infer = infer_swiglu_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 8); },
                .in_place = {{0, 1}},
                .measured_as = "bias_gelu_backward",
                .joint = {.next = "quantise", .joined = "swiglu_backward_quantise"}});
  registry.add({.name = "geglu",
                .infer = infer_geglu,
                .cost = [](const OpView& v) { return streaming_cost(v, 12); },
                .gradient = gradient_of_input,
                .group = "activation",
                .measured_as = "bias_gelu"});
  registry.add({.name = "geglu_backward",
                .infer = infer_geglu_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 16); },
                .in_place = {{0, 1}},
                .measured_as = "bias_gelu_backward"});
  registry.add({.name = "tanh",
                .infer = infer_tanh,
                .cost = [](const OpView& v) { return streaming_cost(v, 12); },
                .gradient = gradient_of_output,
                .in_place = {{0, 0}},
                .group = "activation",
                .measured_as = "bias_gelu"});
  registry.add({.name = "tanh_backward",
                .infer = infer_tanh_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 4); },
                .in_place = {{0, 0}, {0, 1}},
                .measured_as = "bias_gelu_backward"});
  registry.add({.name = "relu",
                .infer = infer_tanh,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .gradient = gradient_of_output,
                .in_place = {{0, 0}},
                .group = "activation",
                .measured_as = "bias_gelu"});
  registry.add({.name = "relu_backward",
                .infer = infer_tanh_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .in_place = {{0, 0}, {0, 1}},
                .measured_as = "bias_gelu_backward"});
}

}  // namespace recollect::ops
