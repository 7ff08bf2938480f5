// Defines the ops of token and position tables, and those that take the first tokens of samples. The
// gradients of tables are accumulators; ids have no gradient.
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
  if (const ValueId dtable = g.accumulator(op.inputs[1]); dtable != kNone)
    g.emit("backward", "embedding_backward", op.attributes, {op.inputs[0], g.upstream(op.outputs[0])},
           {dtable});
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
  if (const ValueId dtable = g.accumulator(op.inputs[1]); dtable != kNone)
    g.emit("backward", "add_position_backward", op.attributes, {dy}, {dtable});
  g.contribute(op.inputs[0], dy);
}

std::vector<OutputSpec> infer_add_embedding(const OpView& v) {
  const Value &x = v.in(0), &ids = v.in(1), &table = v.in(2);
  check(x.shape.rank() == 2 && table.shape.rank() == 2 && x.shape[1] == table.shape[1], v, "widths differ");
  const int64_t first = v.attributes().integer("first_token");
  check(ids.dtype == DType::kI32 && first >= 0 && first + x.shape[0] <= ids.shape.elements(), v,
        "ids are i32, one for every token of x");
  return {like(x)};
}

std::vector<OutputSpec> infer_add_embedding_backward(const OpView& v) {
  const Value &dy = v.in(0), &ids = v.in(1), &table = v.graph.value(v.op.outputs.at(0));
  check(dy.shape.rank() == 2 && dy.shape[1] == table.shape[1], v, "widths differ");
  check(v.attributes().integer("first_token") + dy.shape[0] <= ids.shape.elements(), v,
        "ids are one for every token of dy");
  return {{.shape = table.shape, .dtype = statistics_dtype(dy.dtype), .placement = table.placement}};
}

void add_embedding_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]);
  if (const ValueId dtable = g.accumulator(op.inputs[2]); dtable != kNone)
    g.emit("backward", "add_embedding_backward", op.attributes, {dy, op.inputs[1]}, {dtable});
  g.contribute(op.inputs[0], dy);
}

// The activations have `rows` rows: the tokens from `first_token` on.
void check_samples(const OpView& v, int64_t rows) {
  const int64_t first = v.attributes().integer("first_token"), samples = v.attributes().integer("samples");
  check(first >= 0 && first + rows <= samples * v.attributes().integer("sequence_length"), v,
        "the activations have rows that are no tokens of the samples");
}

// Returns the number of output rows: `samples`, or the length of input 1 if it is present.
int64_t first_token_rows(const OpView& v, int64_t tokens) {
  if (!v.has_input(1)) {
    check_samples(v, tokens);
    return v.attributes().integer("samples");
  }
  check(v.in(1).shape.rank() == 1 && v.in(1).dtype == DType::kI32, v, "numbers of tokens are a list of i32");
  return v.in(1).shape[0];
}

std::vector<OutputSpec> infer_first_tokens(const OpView& v) {
  const Value& x = v.in(0);
  check(x.shape.rank() == 2, v, "x is [tokens, hidden]");
  return {
      {.shape = {first_token_rows(v, x.shape[0]), x.shape[1]}, .dtype = x.dtype, .placement = x.placement}};
}

std::vector<OutputSpec> infer_first_tokens_backward(const OpView& v) {
  const Value& dy = v.in(0);
  const int64_t rows = v.attributes().integer("rows");
  check(dy.shape.rank() == 2 && dy.shape[0] == first_token_rows(v, rows), v, "dy is [samples, hidden]");
  return {{.shape = {rows, dy.shape[1]}, .dtype = dy.dtype, .placement = dy.placement}};
}

void first_tokens_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  Attributes attributes = op.attributes;
  attributes.set("rows", g.graph().value(op.inputs[0]).shape[0]);
  std::vector<ValueId> inputs{g.upstream(op.outputs[0])};
  inputs.insert(inputs.end(), op.inputs.begin() + 1, op.inputs.end());
  g.contribute(op.inputs[0],
               g.emit("backward", "first_tokens_backward", std::move(attributes), std::move(inputs)));
}

Cost cost_rows(const OpView& v) {  // counts only the rows that are read and written, not the table
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
  registry.add({.name = "add_embedding",
                .infer = infer_add_embedding,
                .cost = cost_rows,
                .gradient = add_embedding_gradient,
                .in_place = {{0, 0}},
                .measured_as = "add_position"});
  registry.add({.name = "add_embedding_backward",
                .infer = infer_add_embedding_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 0); }});
  registry.add({.name = "first_tokens",
                .infer = infer_first_tokens,
                .cost = cost_rows,
                .gradient = first_tokens_gradient});
  registry.add({.name = "first_tokens_backward",
                .infer = infer_first_tokens_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 0); }});
}

}  // namespace recollect::ops
