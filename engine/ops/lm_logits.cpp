// Defines the language-model head for one token: generation needs the logits of the last token only.
#include "engine/ops/define.h"
#include "engine/ops/lm_head.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> infer_logits(const OpView& v) {
  const Value &x = v.in(0), &w = v.in(1), &filled = v.in(2);
  check(x.shape.rank() == 2 && w.shape.rank() == 2 && x.shape[1] == w.shape[1], v, "x does not fit w");
  check(x.dtype == w.dtype, v, "x and w have different dtypes");
  check(logit_cap(v.attributes()) >= 0, v, "a cap of logits is positive");
  check(filled.dtype == DType::kI32 && filled.shape == Shape{2}, v, "filled is [2] i32");
  return {{.shape = {w.shape[0]}, .dtype = statistics_dtype(x.dtype), .placement = w.placement}};
}

Cost logits_cost(const OpView& v) {
  return {.flops = 2 * static_cast<double>(v.in(1).shape.elements()),
          .bytes = static_cast<double>(v.in(1).bytes() + v.out(0).bytes())};
}

}  // namespace

void register_lm_logits(OpRegistry& registry) {
  registry.add({.name = "lm_logits", .infer = infer_logits, .cost = logits_cost, .unit = Unit::kGemm});
}

}  // namespace recollect::ops
