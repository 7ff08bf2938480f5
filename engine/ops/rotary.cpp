// Defines rotary position embedding: the table of cosines and sines, and the rotation of query and key heads.
#include "engine/ops/rotary.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

DType table_dtype(const OpView& v) {
  const std::string& dtype = v.attributes().text("dtype");
  check(dtype == "f64" || dtype == "f32", v, "a table is f64 or f32");
  return dtype == "f64" ? DType::kF64 : DType::kF32;
}

std::vector<OutputSpec> infer_table(const OpView& v) {
  const int64_t length = v.attributes().integer("sequence_length"),
                size = v.attributes().integer("head_size");
  check(length > 0 && size > 0 && size % 2 == 0, v, "a head is pairs of elements");
  check(v.attributes().real("theta") > 0, v, "theta is positive");
  RotaryFrequencies{v.attributes()};  // throws if they are invalid
  if (v.has_input(1)) {
    check_shape(v, v.in(1), {1});
    check(v.in(1).dtype == DType::kI32, v, "the length is i32");
  }
  if (!v.has_input(0)) return {{.shape = {length, size}, .dtype = table_dtype(v)}};
  const Value& positions = v.in(0);
  check(positions.dtype == DType::kI32 && positions.shape.rank() == 2 && positions.shape[1] == length, v,
        "positions are [samples, sequence] i32");
  return {{.shape = {positions.shape[0] * length, size}, .dtype = table_dtype(v)}};
}

std::vector<OutputSpec> infer_rotary(const OpView& v) {
  const Value &x = v.in(0), &table = v.in(1);
  const int64_t length = v.attributes().integer("sequence_length"),
                size = v.attributes().integer("head_size"), heads = v.attributes().integer("rotated_heads");
  const int64_t turned = table.shape[1];
  check(turned > 0 && turned % 2 == 0 && turned <= size, v, "what turns of a head are pairs of elements");
  check(x.shape.rank() == 2 && heads > 0 && heads * size <= x.shape[1], v, "x has the heads in its rows");
  check(length > 0 && x.shape[0] % length == 0, v, "tokens are whole sequences");
  check_shape(v, table, {table.shape[0] == x.shape[0] ? x.shape[0] : length, turned});
  check(table.dtype == statistics_dtype(x.dtype), v, "the table has the statistics dtype");
  v.attributes().integer("inverse");
  return {like(x)};
}

void rotary_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  Attributes attributes = op.attributes;
  attributes.set("inverse", 1 - attributes.integer("inverse"));
  g.contribute(op.inputs[0], g.emit("backward", "rotary", std::move(attributes),
                                    {g.upstream(op.outputs[0]), op.inputs[1]}));
}

}  // namespace

void register_rotary(OpRegistry& registry) {
  registry.add({.name = "rotary_table", .infer = infer_table, .cost = [](const OpView& v) {
                  return streaming_cost(v, 50);
                }});
  registry.add({.name = "rotary",
                .infer = infer_rotary,
                .cost = [](const OpView& v) { return streaming_cost(v, 3); },
                .gradient = rotary_gradient,
                .in_place = {{0, 0}}});
}

}  // namespace recollect::ops
