// Defines the sum of two values, and the column sums of one.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

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

void register_sum(OpRegistry& registry) {
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
