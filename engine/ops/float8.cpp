// Defines 8-bit codes with a scale, and linear layers that multiply such codes. Hopper's 8-bit products need
// both operands with the summed dimension contiguous. So backward, which sums over another dimension, needs
// transposed codes, and they are made when a value is quantised.
#include "engine/ops/float8.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

DType format_of(const OpView& v) {
  const std::string& format = v.attributes().text("format");
  check(format == "e4m3" || format == "e5m2", v, "the format is e4m3 or e5m2");
  return format == "e4m3" ? DType::kE4M3 : DType::kE5M2;
}

std::vector<OutputSpec> specs_of_codes(const OpView& v, const OutputSpec& x) {
  const DType format = format_of(v);
  const std::string& copies = v.attributes().text("copies");
  check(x.shape.rank() >= 1 && is_floating(x.dtype), v, "x are floating-point numbers");
  check(x.shape.rank() == 2 || !makes_columns(copies), v, "what is transposed is a matrix");
  check(copies == "rows" || copies == "columns" || copies == "both", v, "copies are rows, columns or both");
  std::vector<OutputSpec> specs;
  if (makes_columns(copies))
    specs.push_back(
        {.shape = {x.shape[1], x.shape[0]}, .dtype = format, .suffix = "columns", .placement = x.placement});
  if (makes_rows(copies))
    specs.push_back({.shape = x.shape, .dtype = format, .suffix = "rows", .placement = x.placement});
  specs.push_back(
      {.shape = {1}, .dtype = statistics_dtype(x.dtype), .suffix = "scale", .placement = x.placement});
  return specs;
}

std::vector<OutputSpec> infer_quantise(const OpView& v) { return specs_of_codes(v, like(v.in(0))); }

// The outputs of the op kind that quantise was joined to, followed by the codes of one of them.
std::vector<OutputSpec> infer_with_codes(const OpView& v) {
  const OpDef& first = *v.op.def->joined_from;
  std::vector<OutputSpec> specs = first.infer(v);
  const std::vector<OutputSpec> codes = specs_of_codes(v, specs.at(first.joint.output));
  specs.insert(specs.end(), codes.begin(), codes.end());
  return specs;
}

// The value that is encoded is read a second time.
Cost cost_with_codes(const OpView& v) {
  const OpDef& first = *v.op.def->joined_from;
  Cost cost = first.cost(v);
  cost.bytes += static_cast<double>(v.out(first.joint.output).bytes());
  return cost;
}

// The value is read twice: for the largest number, and for the codes.
Cost quantise_cost(const OpView& v) {
  Cost cost = streaming_cost(v, 0);
  cost.bytes += static_cast<double>(v.in(0).bytes());
  return cost;
}

std::vector<OutputSpec> infer_dequantise(const OpView& v) {
  const Value &codes = v.in(0), &scale = v.in(1);
  check(is_float8(codes.dtype), v, "what is widened are 8-bit codes");
  check_shape(v, scale, {1});
  const std::string& dtype = v.attributes().text("dtype");
  check(dtype == "statistics" || dtype == "bf16" || dtype == "f16", v,
        "the dtype is statistics, bf16 or f16");
  const DType made = dtype == "statistics" ? scale.dtype : dtype == "bf16" ? DType::kBF16 : DType::kF16;
  check(scale.dtype == statistics_dtype(made), v, "the scale has the statistics dtype");
  return {{.shape = codes.shape, .dtype = made, .placement = codes.placement}};
}

// Checks the operands: codes [m,k] and [n,k], each with its scale.
void check_codes(const OpView& v) {
  const Value &a = v.in(0), &b = v.in(2);
  check(is_float8(a.dtype) && is_float8(b.dtype), v, "what is multiplied are 8-bit codes");
  check(a.dtype != DType::kE5M2 || b.dtype != DType::kE5M2, v, "no device multiplies e5m2 with e5m2");
  check(a.shape.rank() == 2 && b.shape.rank() == 2 && a.shape[1] == b.shape[1], v,
        a.name + " " + a.shape.to_string() + " does not fit " + b.name + " " + b.shape.to_string());
  for (const int scale : {1, 3}) check_shape(v, v.in(scale), {1});
}

// The weight (input 4) is not read; it only determines the dtype of the product.
std::vector<OutputSpec> infer_product(const OpView& v) {
  check_codes(v);
  const DType dtype = v.in(4).dtype, s = statistics_dtype(dtype);
  check(v.in(1).dtype == s && v.in(3).dtype == s, v, "scales have the statistics dtype");
  if (v.has_input(5)) {
    check_shape(v, v.in(5), {v.in(2).shape[0]});
    check(v.in(5).dtype == s, v, "the bias has the statistics dtype");
  }
  return {{.shape = {v.in(0).shape[0], v.in(2).shape[0]}, .dtype = dtype}};
}

std::vector<OutputSpec> infer_forward(const OpView& v) {
  std::vector<OutputSpec> specs = infer_product(v);
  specs.front().placement = v.in(2).placement;  // as in linear
  return specs;
}

std::vector<OutputSpec> infer_input_gradient(const OpView& v) {
  std::vector<OutputSpec> specs = infer_product(v);
  specs.front().placement = v.in(0).placement;
  return specs;
}

std::vector<OutputSpec> infer_weight_gradient(const OpView& v) {
  check_codes(v);
  return {{.shape = {v.in(0).shape[0], v.in(2).shape[0]}, .dtype = v.in(1).dtype, .suffix = "dweight"}};
}

Cost codes_cost(const OpView& v) {
  const Shape &a = v.in(0).shape, &b = v.in(2).shape;
  return {.flops = 2 * static_cast<double>(a[0]) * static_cast<double>(a[1]) * static_cast<double>(b[0]),
          .bytes = static_cast<double>(v.in(0).bytes() + v.in(2).bytes() + v.out(0).bytes())};
}

struct Codes {
  ValueId columns = kNone, rows = kNone, scale = kNone;
};

Codes codes_of(const Op& quantise) {
  const std::string& copies = quantise.attributes.text("copies");
  Codes codes{.scale = quantise.outputs.back()};
  if (makes_columns(copies)) codes.columns = quantise.outputs.front();
  if (makes_rows(copies)) codes.rows = quantise.outputs[makes_columns(copies) ? 1 : 0];
  return codes;
}

Codes quantised(GradientBuilder& g, const std::string& suffix, ValueId x, const char* format,
                const char* copies) {
  g.emit(suffix, "quantise", {{"format", std::string(format)}, {"copies", std::string(copies)}}, {x});
  return codes_of(g.graph().ops().back());
}

// Returns the transposed codes of what forward quantised by `op`. Forward makes no transposed copy of a
// weight that is quantised at each use, nor of a value that tensor ranks gather again. Then this quantises
// the value again, which gives the same codes.
Codes with_columns(GradientBuilder& g, const std::string& suffix, const Op& op) {
  const Codes codes = codes_of(op);
  return codes.columns != kNone ? codes : quantised(g, suffix, op.inputs[0], "e4m3", "columns");
}

// The gradient goes to the values that were quantised, as if quantisation were the identity.
void gradient_past_codes(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  const auto quantise_of = [&](ValueId codes) { return g.graph().op(g.graph().value(codes).producer); };
  const Op of_x = quantise_of(op.inputs[0]), of_w = quantise_of(op.inputs[2]);
  const ValueId x = of_x.inputs[0], w = op.inputs[4], dy = g.upstream(op.outputs[0]);
  const ValueId dw = g.accumulator(w), dbias = op.inputs.size() > 5 ? g.accumulator(op.inputs[5]) : kNone;
  const bool wants_x = g.wanted(x), wants_w = dw != kNone;
  if (dbias != kNone) g.emit("backward_bias", "column_sum", {}, {dy}, {dbias});
  if (!wants_x && !wants_w) return;
  const Codes dy8 = quantised(g, "backward/dy8", dy, "e5m2",
                              !wants_w   ? "rows"
                              : !wants_x ? "columns"
                                         : "both");
  // The quantise ops come first and the products follow each other, so that an all-reduce of dx can overlap
  // with the product that makes dw.
  const Codes x8 = wants_w ? with_columns(g, "backward/x8", of_x) : Codes(),
              w8 = wants_x ? with_columns(g, "backward/w8", of_w) : Codes();
  if (wants_w)
    g.emit("backward_weight", "linear_fp8_backward_weight", {},
           {dy8.columns, dy8.scale, x8.columns, x8.scale}, {dw});
  if (wants_x)
    g.contribute(x, g.emit("backward_input", "linear_fp8_backward_input", {},
                           {dy8.rows, dy8.scale, w8.columns, w8.scale, w}));
}

}  // namespace

void add_with_codes(OpRegistry& registry, const char* kind) {
  const OpDef* first = registry.find(kind);
  OpDef def = *first;
  def.name = first->joint.joined;
  def.infer = infer_with_codes;
  def.cost = cost_with_codes;
  def.gradient = nullptr;
  def.joint = OpDef::Joint{};
  def.joined_from = first;
  if (def.measured_as.empty()) def.measured_as = first->name;
  registry.add(std::move(def));
}

void register_float8(OpRegistry& registry) {
  registry.add({.name = "quantise", .infer = infer_quantise, .cost = quantise_cost, .passes_on = true});
  for (const char* kind : {"bias_gelu", "swiglu", "swiglu_backward"}) add_with_codes(registry, kind);
  registry.add({.name = "dequantise", .infer = infer_dequantise, .cost = [](const OpView& v) {
                  return streaming_cost(v, 1);
                }});
  registry.add({.name = "linear_fp8",
                .infer = infer_forward,
                .cost = codes_cost,
                .gradient = gradient_past_codes,
                .unit = Unit::kGemm,
                .group = "gemm"});
  registry.add({.name = "linear_fp8_backward_input",
                .infer = infer_input_gradient,
                .cost = codes_cost,
                .unit = Unit::kGemm});
  registry.add({.name = "linear_fp8_backward_weight",
                .infer = infer_weight_gradient,
                .cost = codes_cost,
                .unit = Unit::kGemm});
}

}  // namespace recollect::ops
