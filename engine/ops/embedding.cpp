// Token and position tables. Gradients of tables are accumulators; ids get none.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer_embedding(const OpView& v) {
  const Value &ids = v.in(0), &table = v.in(1);
  check(ids.dtype == DType::kI32 && ids.shape.rank() == 2, v, "ids are [samples, sequence] i32");
  check(table.shape.rank() == 2, v, "the table is [rows, hidden]");
  v.attributes().integer("first_row");
  return {
      {.shape = {ids.shape.elements(), table.shape[1]}, .dtype = table.dtype, .placement = ids.placement}};
}

std::vector<OutputSpec> infer_embedding_backward(const OpView& v) {
  const Value &ids = v.in(0), &dy = v.in(1), &table = v.graph.value(v.op.outputs.at(0));
  check_shape(v, dy, {ids.shape.elements(), table.shape[1]});
  return {{.shape = table.shape, .dtype = statistics_dtype(dy.dtype), .placement = table.placement}};
}

void embedding_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  g.emit("backward", "embedding_backward", op.attributes, {op.inputs[0], g.upstream(op.outputs[0])},
         {g.accumulator(op.inputs[1])});
}

std::vector<OutputSpec> infer_add_position(const OpView& v) {
  const Value &x = v.in(0), &table = v.in(1);
  const int64_t s = v.attributes().integer("sequence_length");
  check(x.shape.rank() == 2 && table.shape.rank() == 2 && x.shape[1] == table.shape[1], v, "widths differ");
  check(table.shape[0] >= s, v, "the position table is shorter than the sequence");
  return {like(x)};
}

std::vector<OutputSpec> infer_add_position_backward(const OpView& v) {
  const Value& table = v.graph.value(v.op.outputs.at(0));
  check(v.in(0).shape[1] == table.shape[1], v, "widths differ");
  return {{.shape = table.shape, .dtype = statistics_dtype(v.in(0).dtype), .placement = table.placement}};
}

void add_position_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]);
  g.emit("backward", "add_position_backward", op.attributes, {dy}, {g.accumulator(op.inputs[1])});
  g.contribute(op.inputs[0], dy);
}

Cost cost_rows(const OpView& v) {  // reads and writes rows, whatever the table's size
  const Value& y =
      v.op.outputs.size() == 1 && !v.out(0).accumulator ? v.out(0) : v.in(v.op.inputs.size() - 1);
  return {.flops = static_cast<double>(y.shape.elements()), .bytes = 3.0 * static_cast<double>(y.bytes())};
}

}  // namespace

void register_embedding(OpRegistry& registry) {
  registry.add(
      {.name = "embedding", .infer = infer_embedding, .cost = cost_rows, .gradient = embedding_gradient});
  registry.add({.name = "embedding_backward", .infer = infer_embedding_backward, .cost = cost_rows});
  registry.add({.name = "add_position",
                .infer = infer_add_position,
                .cost = cost_rows,
                .gradient = add_position_gradient,
                .in_place = {{0, 0}}});
  registry.add({.name = "add_position_backward", .infer = infer_add_position_backward, .cost = cost_rows});
}

}  // namespace recollect::ops
