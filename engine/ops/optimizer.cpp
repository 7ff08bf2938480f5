// The optimizer's ops. They update persistent values in place: outputs are accumulators given by the caller.
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
  return scalars({"norm", "factor"});
}

// `moments`: how many accumulators of the gradient's shape follow the master weights.
std::vector<OutputSpec> infer_update(const OpView& v, int moments) {
  const Value& grad = v.in(2);
  std::vector<OutputSpec> specs(1 + moments, like(grad));
  if (v.attributes().integer("cast")) {
    const Value& param = v.out(1 + moments);
    check_shape(v, param, grad.shape);
    specs.push_back(like(param));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].suffix = "state" + std::to_string(i);
  return specs;
}

}  // namespace

void register_optimizer(OpRegistry& registry) {
  const auto stream = [](const OpView& v) { return streaming_cost(v, 2); };
  registry.add({.name = "squared_norm", .infer = infer_squared_norm, .cost = stream});
  registry.add({.name = "clip_factor", .infer = infer_clip_factor, .cost = stream});
  for (const char* name : {"adamw", "adamw_hf", "adam"})  // one pass over the same memory
    registry.add({.name = name,
                  .infer = [](const OpView& v) { return infer_update(v, 2); },
                  .cost = [](const OpView& v) { return streaming_cost(v, 14); },
                  .measured_as = "adamw"});
  registry.add({.name = "sgd",
                .infer = [](const OpView& v) { return infer_update(v, 1); },
                .cost = [](const OpView& v) { return streaming_cost(v, 4); }});
}

}  // namespace recollect::ops
