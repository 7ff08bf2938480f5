// Defines losses whose logits are stored: of class targets and of numeric targets. Like lm_head_loss, they
// are the last op of forward, so they make their gradient at the same time.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> loss_and_gradient(const OpView& v) {
  std::vector<OutputSpec> specs{{.shape = {1}, .dtype = DType::kF64}};
  if (v.attributes().integer("gradient")) specs.push_back(like(v.in(0), "dlogits"));
  return specs;
}

std::vector<OutputSpec> infer_cross_entropy(const OpView& v) {
  const Value &logits = v.in(0), &targets = v.in(1), &scale = v.in(2);
  const int64_t classes = v.attributes().integer("classes"), columns = v.attributes().integer("columns");
  check(classes > 0 && columns > 0 && logits.shape.elements() % (classes * columns) == 0, v,
        "logits " + logits.shape.to_string() + " are no rows of " + std::to_string(classes) + " classes by " +
            std::to_string(columns) + " columns");
  check(targets.dtype == DType::kI32 && targets.shape.elements() * classes == logits.shape.elements(), v,
        "targets are i32, one per row and column");
  check(scale.dtype == DType::kF64 && scale.shape == Shape{columns}, v, "scale is f64, one per column");
  return loss_and_gradient(v);
}

std::vector<OutputSpec> infer_elementwise(const OpView& v) {
  const Value &logits = v.in(0), &targets = v.in(1), &scale = v.in(2);
  check(targets.dtype == DType::kF32 && targets.shape.elements() == logits.shape.elements(), v,
        "targets are f32, one per logit");
  check(scale.dtype == DType::kF64 && scale.shape == Shape{1}, v, "scale is [1] f64");
  const std::string& form = v.attributes().text("form");
  check(form == "squared" || form == "sigmoid", v, "form is squared or sigmoid");
  return loss_and_gradient(v);
}

void gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  require(g.upstream(op.outputs[0]) == kNone, std::string(op.def->name) + " must be the loss itself");
  g.contribute(op.inputs[0], g.extend_forward("gradient", {kNone})[0]);
}

Cost cost(const OpView& v) {
  Cost cost = streaming_cost(v, 0);
  cost.flops = 10 * static_cast<double>(v.in(0).shape.elements());
  return cost;
}

}  // namespace

void register_label_loss(OpRegistry& registry) {
  registry.add({.name = "cross_entropy_loss",
                .infer = infer_cross_entropy,
                .cost = cost,
                .gradient = gradient,
                .in_place = {{1, 0}},
                .normalises = true});
  registry.add({.name = "elementwise_loss",
                .infer = infer_elementwise,
                .cost = cost,
                .gradient = gradient,
                .in_place = {{1, 0}}});
}

}  // namespace recollect::ops
