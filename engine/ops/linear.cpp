// y = x w^T + bias, or GELU of it. Weights are [out, in], as in torch.nn.Linear.
#include "engine/ops/define.h"
#include "engine/ops/quantised_weight.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer_linear(const OpView& v) {
  const Value &x = v.in(0), &w = v.in(1);
  check(x.shape.rank() == 2 && w.shape.rank() == 2 && x.shape[1] == w.shape[1], v,
        "x " + x.shape.to_string() + " does not fit w " + w.shape.to_string());
  check(x.dtype == w.dtype, v, "x and w have different dtypes");
  if (v.has_input(2)) {
    check_shape(v, v.in(2), {w.shape[0]});
    check(v.in(2).dtype == statistics_dtype(x.dtype), v, "the bias has the statistics dtype");
  }
  // A divided weight of which x sees all columns makes divided features; a divided x stays divided.
  return {{.shape = {x.shape[0], w.shape[0]}, .dtype = x.dtype, .placement = w.placement}};
}

std::vector<OutputSpec> infer_linear_gelu(const OpView& v) {
  check(v.has_input(2), v, "the product has a bias");
  std::vector<OutputSpec> specs = infer_linear(v);
  specs.push_back(specs.front());
  specs.back().suffix = "pre";
  return specs;
}

std::vector<OutputSpec> infer_rows(const OpView& v) {
  std::vector<OutputSpec> specs = infer_linear(v);
  const Attributes& a = v.attributes();
  const int64_t first = a.integer("first_row"), rows = a.integer("rows"), blocks = a.integer("blocks"),
                stride = a.integer("stride");
  check(first >= 0 && rows >= 1 && blocks >= 1 && (blocks == 1 || stride >= rows), v,
        "the rows are those of blocks that stand apart");
  check(first + (blocks - 1) * stride + rows <= v.in(0).shape[0], v, "x has no such rows");
  check(blocks * rows <= a.integer("whole_rows"), v, "a piece has no more rows than the whole");
  specs.front().shape = {blocks * rows, v.in(1).shape[0]};
  return specs;
}

std::vector<OutputSpec> infer_backward_input(const OpView& v) {
  const Value &dy = v.in(0), &w = v.in(1);
  check(dy.shape.rank() == 2 && dy.shape[1] == w.shape[0], v, "dy does not fit w");
  return {{.shape = {dy.shape[0], w.shape[1]}, .dtype = dy.dtype, .placement = dy.placement}};
}

std::vector<OutputSpec> infer_backward_input_gelu(const OpView& v) {
  std::vector<OutputSpec> specs = infer_backward_input(v);
  check_shape(v, v.in(2), specs.front().shape);
  return specs;
}

std::vector<OutputSpec> infer_backward_weight(const OpView& v) {
  const Value &x = v.in(0), &dy = v.in(1);
  check(x.shape[0] == dy.shape[0], v, "x and dy have different numbers of rows");
  const DType s = statistics_dtype(x.dtype);
  std::vector<OutputSpec> specs{{.shape = {dy.shape[1], x.shape[1]}, .dtype = s, .suffix = "dweight"}};
  if (v.attributes().integer("bias"))
    specs.push_back({.shape = {dy.shape[1]}, .dtype = s, .suffix = "dbias"});
  return specs;
}

// One that forward has made of what is stored is made again: nobody saves it for so long.
ValueId weight_in_backward(GradientBuilder& g, ValueId w) {
  const OpId producer = g.graph().value(w).producer;
  if (producer == kNone || g.graph().op(producer).def->name != kStoredRows) return w;
  const Op made = g.graph().op(producer);
  return g.emit("backward_weight_again", made.def->name, made.attributes, made.inputs);
}

// What is multiplied may be GELU that another product ends with: the gradient of that product's sums is made at once.
void input_gradient(GradientBuilder& g, ValueId x, ValueId dy, ValueId w) {
  if (!g.wanted(x)) return;
  w = weight_in_backward(g, w);
  const OpId producer = g.graph().value(x).producer;
  const Op* gelu = producer == kNone ? nullptr : &g.graph().op(producer);
  if (!gelu || gelu->def->name != "linear_gelu" || gelu->outputs[0] != x)
    return g.contribute(x, g.emit("backward_input", "linear_backward_input", {}, {dy, w}));
  const ValueId pre = gelu->outputs[1];
  g.contribute(pre, g.emit("backward_input", "linear_backward_input_gelu", {}, {dy, w, pre}));
}

// `dy` is the gradient of the product.
void product_gradient(GradientBuilder& g, const Op& op, ValueId dy) {
  const ValueId x = op.inputs[0], w = op.inputs[1];
  const ValueId dw = g.accumulator(w), dbias = op.inputs.size() > 2 ? g.accumulator(op.inputs[2]) : kNone;
  if (dw != kNone) {
    const bool bias = dbias != kNone;
    std::vector<ValueId> accumulators{dw};
    if (bias) accumulators.push_back(dbias);
    g.emit("backward_weight", "linear_backward_weight", {{"bias", int64_t{bias}}}, {x, dy}, accumulators);
  } else if (dbias != kNone) {
    g.emit("backward_bias", "column_sum", {}, {dy}, {dbias});
  }
  input_gradient(g, x, dy, w);
}

void linear_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  product_gradient(g, op, g.upstream(op.outputs[0]));
}

// Products that multiply y have brought the gradient of the sums already; others bring that of y.
void linear_gelu_gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const ValueId dy = g.upstream(op.outputs[0]), pre = op.outputs[1];
  if (dy != kNone) g.contribute(pre, g.emit("backward_gelu", "gelu_backward", {}, {dy, pre}));
  product_gradient(g, op, g.upstream(pre));
}

// 2 m n k for the product of the first operand, [m, k], with the second, however that is transposed.
Cost gemm_cost(const OpView& v, int64_t n) {
  const Shape& a = v.in(0).shape;
  Cost cost = streaming_cost(v, 0);
  cost.flops = 2 * static_cast<double>(a[0]) * static_cast<double>(n) * static_cast<double>(a[1]);
  return cost;
}

Cost linear_cost(const OpView& v) { return gemm_cost(v, v.out(0).shape[1]); }
// Of x it reads the rows that it multiplies. Each block is a product by itself.
Cost rows_cost(const OpView& v) {
  const Shape &y = v.out(0).shape, &w = v.in(1).shape;
  const auto blocks = static_cast<double>(v.attributes().integer("blocks"));
  const double of_x = static_cast<double>(y[0] * w[1]) * static_cast<double>(size_of(v.in(0).dtype));
  return {
      .flops = 2 * static_cast<double>(y[0]) * static_cast<double>(w[0]) * static_cast<double>(w[1]),
      .bytes = of_x + blocks * static_cast<double>(v.in(1).bytes()) + static_cast<double>(v.out(0).bytes()),
      .pieces = blocks};
}

Cost weight_cost(const OpView& v) { return gemm_cost(v, v.in(1).shape[1]); }

}  // namespace

void register_linear(OpRegistry& registry) {
  registry.add({.name = "linear",
                .infer = infer_linear,
                .cost = linear_cost,
                .gradient = linear_gradient,
                .unit = Unit::kGemm,
                .group = "gemm"});
  registry.add({.name = "linear_gelu",
                .infer = infer_linear_gelu,
                .cost = linear_cost,
                .gradient = linear_gelu_gradient,
                .unit = Unit::kGemm,
                .group = "gemm",
                .measured_as = "linear"});
  registry.add({.name = "linear_rows",
                .infer = infer_rows,
                .cost = rows_cost,
                .unit = Unit::kGemm,
                .group = "gemm",
                .measured_as = "linear"});
  registry.add({.name = "linear_backward_input",
                .infer = infer_backward_input,
                .cost = linear_cost,
                .unit = Unit::kGemm});
  registry.add({.name = "linear_backward_input_gelu",
                .infer = infer_backward_input_gelu,
                .cost = linear_cost,
                .unit = Unit::kGemm,
                .measured_as = "linear_backward_input"});
  registry.add({.name = "linear_backward_weight",
                .infer = infer_backward_weight,
                .cost = weight_cost,
                .unit = Unit::kGemm,
                .sums_too = {.kind = "column_sum", .input = 1, .attribute = "bias"}});
}

}  // namespace recollect::ops
