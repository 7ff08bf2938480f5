#include "parallel/optimizers/rule.h"

namespace recollect {

OptimizerState state_like(std::string name, const Value& gradient) {
  return {std::move(name), gradient.shape, gradient.dtype, gradient.placement};
}

void emit_update(OpBuilder& ops, const ParameterUpdate& update, std::string_view kind,
                 Attributes attributes) {
  const Parameter& p = update.parameter;
  const bool cast = p.master != p.value;
  attributes.set("weight_decay", update.weight_decay);
  attributes.set("cast", int64_t{cast});
  if (p.rate_scale != 1) attributes.set("rate_scale", p.rate_scale);
  for (const auto& [name, value] : update.rounding.items()) attributes.set(name, value);
  std::vector<ValueId> outputs{p.master};
  for (const Parameter::State& state : p.states) outputs.push_back(state.value);
  if (cast) outputs.push_back(p.value);
  if (update.on_host) attributes.set("rule", std::string(kind));
  ops.append("update/" + p.name, update.on_host ? "host_update" : kind, std::move(attributes),
             {update.schedule, update.factor, p.gradient}, std::move(outputs));
}

}  // namespace recollect
