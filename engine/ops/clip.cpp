// Defines the norm of all gradients, and the factor that clips gradients by their norm.
#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

std::vector<OutputSpec> scalars(std::initializer_list<const char*> names) {
  std::vector<OutputSpec> specs;
  for (const char* name : names) specs.push_back({.shape = {1}, .dtype = DType::kF64, .suffix = name});
  return specs;
}

std::vector<OutputSpec> infer_squared_norm(const OpView&) { return scalars({""}); }

std::vector<OutputSpec> infer_clip_factor(const OpView& v) {
  v.attributes().real("max_norm");
  if (v.has_input(3)) check(v.attributes().integer("repeats") > 0, v, "repeats is positive");
  return scalars({"norm", "factor"});
}

}  // namespace

void register_clip(OpRegistry& registry) {
  const auto stream = [](const OpView& v) { return streaming_cost(v, 2); };
  registry.add({.name = "squared_norm", .infer = infer_squared_norm, .cost = stream});
  registry.add({.name = "clip_factor", .infer = infer_clip_factor, .cost = stream});
}

}  // namespace recollect::ops
