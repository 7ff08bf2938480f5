// Defines the language-model head and cross-entropy as one op. In training it also makes its gradient while a
// chunk of logits is in memory. This is possible because the loss is the last op of forward: its own gradient
// is 1.
#include <cmath>

#include "engine/ops/define.h"
#include "engine/ops/lm_head.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer(const OpView& v) {
  const Value &x = v.in(0), &w = v.in(1), &targets = v.in(2), &scale = v.in(3);
  check(x.shape.rank() == 2 && w.shape.rank() == 2 && x.shape[1] == w.shape[1], v, "x does not fit w");
  check(targets.dtype == DType::kI32 && targets.shape.elements() == x.shape[0], v,
        "targets are i32, one per row of x");
  check(scale.dtype == DType::kF64 && scale.shape == Shape{1}, v, "scale is [1] f64");
  check(v.attributes().integer("chunk_rows") > 0, v, "chunk_rows is positive");
  check(logit_cap(v.attributes()) >= 0, v, "a cap of logits is positive");
  if (v.has_input(4)) {
    check_shape(v, v.in(4), {w.shape[0]});
    check(v.in(4).dtype == statistics_dtype(w.dtype), v, "the bias has the statistics dtype");
  }
  std::vector<OutputSpec> specs{{.shape = {1}, .dtype = DType::kF64}};
  if (v.attributes().integer("gradient")) {
    specs.push_back(like(x, "dx"));
    const HeadGradients made(v);
    if (made.weight != kNone) specs.push_back(gradient_like(w, "dweight"));
    if (made.bias != kNone) specs.push_back(gradient_like(v.in(4), "dbias"));
  }
  return specs;
}

void gradient(GradientBuilder& g, OpId id) {
  const Op op = g.graph().op(id);
  require(g.upstream(op.outputs[0]) == kNone, "lm_head_loss must be the loss itself");
  std::vector<ValueId> outputs{kNone};
  const auto add = [&](std::size_t input, const char* frozen) {
    if (input >= op.inputs.size() || op.inputs[input] == kNone) return;
    if (const ValueId sum = g.accumulator(op.inputs[input]); sum != kNone)
      outputs.push_back(sum);
    else
      g.graph().op(id).attributes.set(frozen, int64_t{1});
  };
  add(1, "frozen_weight");
  add(4, "frozen_bias");
  const auto made = g.extend_forward("gradient", std::move(outputs));
  g.contribute(op.inputs[0], made[0]);
}

// If the vocabulary is sharded, the ranks exchange the maxima and the sums of every chunk.
Cost cost(const OpView& v) {
  const double product =
      2.0 * static_cast<double>(v.in(0).shape.elements()) * static_cast<double>(v.in(1).shape[0]);
  Cost cost = streaming_cost(v, 0);
  const HeadGradients made(v);
  cost.flops = product * (1 + (v.attributes().integer("gradient") ? 1 : 0) + (made.weight != kNone ? 1 : 0));
  const auto rows = static_cast<double>(v.in(0).shape[0]),
             chunk = static_cast<double>(v.attributes().integer("chunk_rows"));
  if (v.in(1).placement.is_sharded_over(kTensorAxis)) cost.exchanges = 2 * std::ceil(rows / chunk);
  return cost;
}

}  // namespace

void register_lm_head(OpRegistry& registry) {
  registry.add(
      {.name = "lm_head_loss", .infer = infer, .cost = cost, .gradient = gradient, .unit = Unit::kGemm});
}

}  // namespace recollect::ops
