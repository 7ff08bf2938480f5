#include "parallel/optimizer_step.h"

#include <algorithm>

#include "engine/graph/op_builder.h"
#include "parallel/mesh.h"
#include "parallel/optimizers/rules.h"

namespace recollect {

namespace {

// Tensor ranks that hold the same parts of those parameters that more than one holds; 1 where there are none.
int repeats_of(const std::vector<Parameter>& parameters) {
  int repeats = 1;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) repeats = std::max(repeats, p.repeats);
  return repeats;
}

class Builder {
 public:
  Builder(Graph& graph, const OpRegistry& registry)
      : graph_(graph),
        ops_(graph, registry, {.phase = Phase::kOptimizer, .accumulate = Accumulate::kAlways}) {}

  OpBuilder& ops() { return ops_; }

  // Numbers that outlive the step, so that the host can read and write them.
  ValueId scalars(const std::string& name, Category category, int64_t size) {
    return graph_.add_value({.name = name,
                             .shape = {size},
                             .dtype = DType::kF64,
                             .category = category,
                             .persistent = true,
                             .accumulator = true});
  }

  ValueId scalar(const std::string& name, Category category) { return scalars(name, category, 1); }

  // "exp_avg/h.0.ln_1.weight"
  ValueId state(const Parameter& p, const OptimizerState& state) {
    return graph_.add_value({.name = state.name + "/" + p.name,
                             .shape = state.shape,
                             .dtype = state.dtype,
                             .category = Category::kOptimizer,
                             .placement = state.placement,
                             .persistent = true,
                             .accumulator = true,
                             .layer = graph_.value(p.gradient).layer});
  }

  ValueId squared_norm(const std::string& name, const std::vector<Parameter>& parameters,
                       const Placement& placement, int repeats = 1) {
    std::vector<ValueId> gradients;
    for (const Parameter& p : parameters)
      if (p.gradient != kNone && graph_.value(p.gradient).placement == placement && p.repeats == repeats)
        gradients.push_back(p.gradient);
    return ops_.append(name, "squared_norm", {}, std::move(gradients)).outputs[0];
  }

  ValueId all_reduce(const std::string& name, ValueId value, std::string_view axis, int size) {
    if (size == 1) return value;
    const Attributes attributes{{"axis", std::string(axis)}, {"size", int64_t{size}}};
    return ops_.append(name, "all_reduce", attributes, {value}).outputs[0];
  }

  void update(Parameter& p, const OptimizerRule& rule, ParameterUpdate update) {
    const Value gradient = graph_.value(p.gradient);
    update.dtype = gradient.dtype;
    const bool cast = graph_.value(p.value).dtype != gradient.dtype;
    p.master = cast ? state(p, state_like("master", gradient)) : p.value;
    graph_.value(p.value).accumulator = true;
    for (const OptimizerState& wanted : rule.states(p, gradient))
      p.states.push_back({wanted.name, state(p, wanted), wanted.of});
    rule.emit(ops_, update);
  }

 private:
  Graph& graph_;
  OpBuilder ops_;
};

}  // namespace

OptimizerHandles append_optimizer(Graph& graph, const OpRegistry& registry,
                                  std::vector<Parameter>& parameters, ValueId loss,
                                  const OptimizerSettings& settings, int data_size, int tensor_size) {
  Builder b(graph, registry);
  OptimizerHandles handles;
  handles.rule = make_optimizer_rule(settings);
  std::vector<double> numbers;
  handles.rule->scalars(0, 1, numbers);
  handles.schedule = b.scalars("input/schedule", Category::kInput, static_cast<int64_t>(numbers.size()));
  if (data_size > 1) {
    handles.total_loss = b.scalar("loss/total", Category::kWorkspace);
    b.ops().append("loss/total", "all_reduce",
                   {{"axis", std::string(kDataAxis)}, {"size", int64_t{data_size}}}, {loss},
                   {handles.total_loss});
  } else {
    handles.total_loss = loss;
  }
  const ValueId sharded = b.all_reduce(
      "norm/sharded/sum", b.squared_norm("norm/sharded", parameters, Placement::sharded_over(kTensorAxis)),
      kTensorAxis, tensor_size);
  const ValueId replicated = b.squared_norm("norm/replicated", parameters, Placement());
  Attributes clipping{{"max_norm", settings.max_grad_norm}};
  ValueId repeated = kNone;  // the sum has each once for every rank that holds it
  if (const int repeats = repeats_of(parameters); repeats > 1) {
    repeated = b.all_reduce(
        "norm/repeated/sum",
        b.squared_norm("norm/repeated", parameters, Placement::sharded_over(kTensorAxis), repeats),
        kTensorAxis, tensor_size);
    clipping.set("repeats", int64_t{repeats});
  }
  handles.norm = b.scalar("norm", Category::kWorkspace);
  if (settings.loss_scaled) handles.loss_scale = b.scalar("input/loss_scale", Category::kInput);
  const Op& clip =
      b.ops().append("norm/clip", "clip_factor", std::move(clipping),
                     {sharded, replicated, handles.loss_scale, repeated, handles.total_loss}, {handles.norm});
  const ValueId factor = clip.outputs[1];
  for (Parameter& p : parameters) {
    p.master = p.value;
    if (p.gradient == kNone) continue;  // frozen
    const double decay = p.decayed() || settings.decay_all ? settings.weight_decay : 0.0;
    b.update(p, *handles.rule,
             {.parameter = p,
              .schedule = handles.schedule,
              .factor = factor,
              .weight_decay = p.weight_decay.value_or(decay),
              .tensor_size = tensor_size});
  }
  return handles;
}

}  // namespace recollect
