// Defines the sum of a wide value and a multiple of a narrow one in some columns, and its gradient.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

void check_columns(const OpView& v, const Value& whole, int64_t columns) {
  const int64_t first = v.attributes().integer("first_column");
  check(whole.shape.rank() == 2 && first >= 0 && columns > 0 && first + columns <= whole.shape[1], v,
        "the columns are none of " + whole.shape.to_string());
}

std::vector<OutputSpec> infer_add_scaled_columns(const OpView& v) {
  const Value &x = v.in(0), &part = v.in(1);
  check(part.shape.rank() == 2 && part.shape[0] == x.shape[0] && part.dtype == x.dtype, v,
        "x " + x.shape.to_string() + " and part " + part.shape.to_string() + " do not fit");
  check_columns(v, x, part.shape[1]);
  return {like(x)};
}

std::vector<OutputSpec> infer_scaled_columns(const OpView& v) {
  const Value& dy = v.in(0);
  const int64_t columns = v.attributes().integer("columns");
  check_columns(v, dy, columns);
  return {{.shape = {dy.shape[0], columns}, .dtype = dy.dtype, .placement = dy.placement}};
}

void gradient_of_columns(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId part = op.inputs[1], dy = g.upstream(op.outputs[0]);
  if (g.wanted(part)) {
    Attributes attributes = op.attributes;
    attributes.set("columns", g.graph().value(part).shape[1]);
    g.contribute(part, g.emit("backward", "scaled_columns", attributes, {dy}));
  }
  g.contribute(op.inputs[0], dy);
}

// Implemented only if all columns are scaled, because no model scales just some of them.
void gradient_of_scale(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const Shape& x = g.graph().value(op.inputs[0]).shape;
  require(op.attributes.integer("columns") == x[1],
          "scaled_columns has a gradient where it takes all columns");
  g.contribute(op.inputs[0],
               g.emit("backward", "scaled_columns", op.attributes, {g.upstream(op.outputs[0])}));
}

// Only the taken columns of dy are read.
Cost scaled_columns_cost(const OpView& v) {
  Cost cost;
  cost.bytes = 2 * static_cast<double>(v.out(0).bytes());
  cost.flops = static_cast<double>(v.out(0).shape.elements());
  return cost;
}

}  // namespace

void register_scaled_columns(OpRegistry& registry) {
  registry.add({.name = "add_scaled_columns",
                .infer = infer_add_scaled_columns,
                .cost = [](const OpView& v) { return streaming_cost(v, 2); },
                .gradient = gradient_of_columns,
                .in_place = {{0, 0}},
                .measured_as = "add"});
  registry.add({.name = "scaled_columns",
                .infer = infer_scaled_columns,
                .cost = scaled_columns_cost,
                .gradient = gradient_of_scale,
                .measured_as = "add"});
}

}  // namespace recollect::ops
