#include "parallel/optimizer_step.h"

#include "parallel/mesh.h"

namespace recollect {

namespace {

class Builder {
 public:
  Builder(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  OpId emit(const std::string& name, const std::string& kind, Attributes attributes,
            std::vector<ValueId> inputs, std::vector<ValueId> outputs = {}) {
    return graph_.add_op({.def = registry_.find(kind),
                          .name = name,
                          .attributes = std::move(attributes),
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .phase = Phase::kOptimizer,
                          .accumulate = Accumulate::kAlways});
  }

  // A scalar that outlives the step, so that the host can read it.
  ValueId scalar(const std::string& name, Category category, int64_t size = 1) {
    return graph_.add_value({.name = name,
                             .shape = {size},
                             .dtype = DType::kF64,
                             .category = category,
                             .persistent = true,
                             .accumulator = true});
  }

  ValueId state(const std::string& prefix, const Parameter& p) {
    const Value gradient = graph_.value(p.gradient);
    return graph_.add_value({.name = prefix + "/" + p.name,
                             .shape = gradient.shape,
                             .dtype = gradient.dtype,
                             .category = Category::kOptimizer,
                             .placement = gradient.placement,
                             .persistent = true,
                             .accumulator = true,
                             .layer = gradient.layer});
  }

  ValueId squared_norm(const std::string& name, const std::vector<Parameter>& parameters,
                       const Placement& placement) {
    std::vector<ValueId> gradients;
    for (const Parameter& p : parameters)
      if (graph_.value(p.gradient).placement == placement) gradients.push_back(p.gradient);
    return graph_.op(emit(name, "squared_norm", {}, gradients)).outputs[0];
  }

  ValueId all_reduce(const std::string& name, ValueId value, std::string_view axis, int size) {
    if (size == 1) return value;
    const Attributes attributes{{"axis", std::string(axis)}, {"size", int64_t{size}}};
    return graph_.op(emit(name, "all_reduce", attributes, {value})).outputs[0];
  }

  void update(Parameter& p, const OptimizerSettings& settings, ValueId schedule, ValueId factor) {
    const bool cast = graph_.value(p.value).dtype != graph_.value(p.gradient).dtype;
    p.master = cast ? state("master", p) : p.value;
    graph_.value(p.value).accumulator = true;
    const bool sgd = settings.name == "sgd";
    p.moments.push_back(state("moment1", p));
    if (!sgd) p.moments.push_back(state("moment2", p));
    std::vector<ValueId> outputs{p.master};
    outputs.insert(outputs.end(), p.moments.begin(), p.moments.end());
    if (cast) outputs.push_back(p.value);
    Attributes attributes{{"weight_decay", p.decayed() || settings.decay_all ? settings.weight_decay : 0.0},
                          {"cast", int64_t{cast}}};
    if (sgd) {
      attributes.set("momentum", settings.momentum);
    } else {
      attributes.set("beta1", settings.beta1);
      attributes.set("beta2", settings.beta2);
      attributes.set("epsilon", settings.epsilon);
    }
    emit("update/" + p.name, settings.name, attributes, {schedule, factor, p.gradient}, outputs);
  }

 private:
  Graph& graph_;
  const OpRegistry& registry_;
};

}  // namespace

OptimizerHandles append_optimizer(Graph& graph, const OpRegistry& registry,
                                  std::vector<Parameter>& parameters, ValueId loss,
                                  const OptimizerSettings& settings, int data_size, int tensor_size) {
  Builder b(graph, registry);
  OptimizerHandles handles;
  handles.schedule = b.scalar("input/schedule", Category::kInput, 3);
  if (data_size > 1) {
    handles.total_loss = b.scalar("loss/total", Category::kWorkspace);
    b.emit("loss/total", "all_reduce", {{"axis", std::string(kDataAxis)}, {"size", int64_t{data_size}}},
           {loss}, {handles.total_loss});
  } else {
    handles.total_loss = loss;
  }
  const ValueId sharded = b.all_reduce(
      "norm/sharded/sum", b.squared_norm("norm/sharded", parameters, Placement::sharded_over(kTensorAxis)),
      kTensorAxis, tensor_size);
  const ValueId replicated = b.squared_norm("norm/replicated", parameters, Placement());
  handles.norm = b.scalar("norm", Category::kWorkspace);
  if (settings.loss_scaled) handles.loss_scale = b.scalar("input/loss_scale", Category::kInput);
  const OpId clip = b.emit("norm/clip", "clip_factor", {{"max_norm", settings.max_grad_norm}},
                           {sharded, replicated, handles.loss_scale}, {handles.norm});
  for (Parameter& p : parameters) b.update(p, settings, handles.schedule, graph.op(clip).outputs[1]);
  return handles;
}

}  // namespace recollect
