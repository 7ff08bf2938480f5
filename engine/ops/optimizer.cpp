// Defines the update rules. They change persistent values in place: their outputs are accumulators that the
// caller gives.
#include "engine/ops/define.h"
#include "engine/ops/stochastic_rounding.h"

namespace recollect::ops {

namespace {

// `moments`: the number of accumulators with the gradient's shape that follow the master weights.
std::vector<OutputSpec> infer_update(const OpView& v, int moments,
                                     std::initializer_list<const char*> settings) {
  for (const char* name : settings) v.attributes().real(name);  // throws if it is missing
  const Value& grad = v.in(2);
  std::vector<OutputSpec> specs(1 + moments, like(grad));
  if (RoundedParameter::is_asked_for(v.attributes())) specs[0].dtype = v.out(0).dtype;
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
  for (const char* name : {"adamw", "adamw_hf", "adam"})  // one pass over the same memory
    registry.add({.name = name,
                  .infer =
                      [](const OpView& v) {
                        return infer_update(v, 2, {"beta1", "beta2", "epsilon", "weight_decay"});
                      },
                  .cost = [](const OpView& v) { return streaming_cost(v, 14); },
                  .measured_as = "adamw"});
  registry.add({.name = "sgd",
                .infer =
                    [](const OpView& v) {
                      return infer_update(v, 1, {"momentum", "weight_decay"});
                    },
                .cost = [](const OpView& v) { return streaming_cost(v, 4); }});
  registry.add({.name = "lion",
                .infer =
                    [](const OpView& v) {
                      return infer_update(v, 1, {"beta1", "beta2", "weight_decay"});
                    },
                .cost = [](const OpView& v) { return streaming_cost(v, 10); },
                .measured_as = "sgd"});
}

}  // namespace recollect::ops
