#include "parallel/optimizers/rule.h"

namespace recollect {

OptimizerState state_like(std::string name, const Value& gradient) {
  return {std::move(name), gradient.shape, gradient.dtype, gradient.placement};
}

void emit_update(Graph& graph, const OpRegistry& registry, const ParameterUpdate& update,
                 std::string_view kind, Attributes attributes) {
  const Parameter& p = update.parameter;
  const bool cast = p.master != p.value;
  attributes.set("weight_decay", update.weight_decay);
  attributes.set("cast", int64_t{cast});
  std::vector<ValueId> outputs{p.master};
  for (const Parameter::State& state : p.states) outputs.push_back(state.value);
  if (cast) outputs.push_back(p.value);
  graph.add_op({.def = registry.find(kind),
                .name = "update/" + p.name,
                .attributes = std::move(attributes),
                .inputs = {update.schedule, update.factor, p.gradient},
                .outputs = std::move(outputs),
                .phase = Phase::kOptimizer,
                .accumulate = Accumulate::kAlways});
}

}  // namespace recollect
