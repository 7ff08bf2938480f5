// What depends on sequences as wholes: positions that padding has no part in, and means over tokens.
#include "engine/ops/sequences.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer_token_positions(const OpView& v) {
  const Value& ids = v.in(0);
  check(ids.dtype == DType::kI32 && ids.shape.rank() == 2, v, "ids are [samples, sequence] i32");
  if (v.has_input(1)) check_shape(v, v.in(1), ids.shape);
  check(v.attributes().integer("padding_id") >= 0, v, "the padding has a position");
  return {like(ids)};
}

// x or dx has `rows` rows; behind `first` of the inputs stand the sequences. Returns how many these are.
int64_t check_sequences(const OpView& v, int64_t rows, std::size_t first) {
  const int64_t tokens = v.attributes().integer("samples") * v.attributes().integer("sequence_length");
  const int64_t first_token = v.attributes().integer("first_token");
  check(first_token >= 0 && first_token + rows <= tokens, v, "rows are tokens of the samples");
  check(v.in(first).shape.rank() == 1 && v.in(first).dtype == DType::kI32, v, "sequences are a list of i32");
  if (v.has_input(first + 1))
    check(v.in(first + 1).shape.elements() == tokens, v, "each token has a position");
  else
    check_shape(v, v.in(first), {v.attributes().integer("samples")});
  return v.in(first).shape[0];
}

std::vector<OutputSpec> infer_mean_tokens(const OpView& v) {
  const Value& x = v.in(0);
  check(x.shape.rank() == 2, v, "x is [tokens, hidden]");
  return {
      {.shape = {check_sequences(v, x.shape[0], 1), x.shape[1]}, .dtype = x.dtype, .placement = x.placement}};
}

std::vector<OutputSpec> infer_mean_tokens_backward(const OpView& v) {
  const Value& dy = v.in(0);
  const int64_t rows = v.attributes().integer("rows");
  check(dy.shape.rank() == 2 && dy.shape[0] == check_sequences(v, rows, 1), v, "dy is [sequences, hidden]");
  return {{.shape = {rows, dy.shape[1]}, .dtype = dy.dtype, .placement = dy.placement}};
}

void mean_tokens_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  Attributes attributes = op.attributes;
  attributes.set("rows", g.graph().value(op.inputs[0]).shape[0]);
  std::vector<ValueId> inputs = op.inputs;
  inputs.front() = g.upstream(op.outputs[0]);
  g.contribute(op.inputs[0],
               g.emit("backward", "mean_tokens_backward", std::move(attributes), std::move(inputs)));
}

}  // namespace

void register_sequences(OpRegistry& registry) {
  registry.add({.name = "token_positions", .infer = infer_token_positions, .cost = [](const OpView& v) {
                  return streaming_cost(v, 1);
                }});
  registry.add({.name = "mean_tokens",
                .infer = infer_mean_tokens,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); },
                .gradient = mean_tokens_gradient});
  registry.add({.name = "mean_tokens_backward",
                .infer = infer_mean_tokens_backward,
                .cost = [](const OpView& v) { return streaming_cost(v, 1); }});
}

}  // namespace recollect::ops
