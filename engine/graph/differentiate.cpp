#include "engine/graph/differentiate.h"

#include <algorithm>

#include "engine/core/statistics_dtype.h"

namespace recollect {

namespace {

// A value needs a gradient if it is a target or is computed from one.
std::vector<char> mark_wanted(const Graph& graph, const std::vector<ValueId>& targets) {
  std::vector<char> wanted(graph.values().size(), 0);
  for (ValueId t : targets) wanted.at(t) = 1;
  for (const Op& op : graph.ops()) {
    const bool any =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return v != kNone && wanted[v]; });
    for (ValueId out : op.outputs)
      if (any && out != kNone) wanted[out] = 1;
  }
  return wanted;
}

}  // namespace

GradientBuilder::GradientBuilder(Graph& graph, const OpRegistry& registry,
                                 const std::vector<ValueId>& targets)
    : graph_(graph),
      ops_(graph, registry, {.phase = Phase::kBackward}),
      wanted_(mark_wanted(graph, targets)) {}

ValueId GradientBuilder::upstream(ValueId output) const {
  const auto it = arrived_.find(output);
  return it == arrived_.end() ? kNone : it->second;
}

ValueId GradientBuilder::take(ValueId value) {
  const ValueId gradient = upstream(value);
  arrived_.erase(value);
  return gradient;
}

void GradientBuilder::contribute(ValueId value, ValueId gradient) {
  if (!wanted(value) || gradient == kNone) return;
  const ValueId earlier = take(value);
  if (earlier != kNone) gradient = emit("sum", "add", {}, {earlier, gradient});
  arrived_[value] = gradient;
}

ValueId GradientBuilder::accumulator(ValueId parameter) {
  return wanted(parameter) ? make_accumulator(parameter) : kNone;
}

std::vector<ValueId> GradientBuilder::accumulators(const std::vector<ValueId>& parameters) {
  const bool any = std::any_of(parameters.begin(), parameters.end(), [&](ValueId p) { return wanted(p); });
  std::vector<ValueId> all(parameters.size(), kNone);
  if (any)
    std::transform(parameters.begin(), parameters.end(), all.begin(),
                   [&](ValueId p) { return make_accumulator(p); });
  return all;
}

ValueId GradientBuilder::make_accumulator(ValueId parameter) {
  if (const auto it = accumulators_.find(parameter); it != accumulators_.end()) return it->second;
  const Value p = graph_.value(parameter);
  const ValueId id = graph_.add_value({.name = "grad/" + p.name,
                                       .shape = p.shape,
                                       .dtype = statistics_dtype(p.dtype),
                                       .category = Category::kGradient,
                                       .placement = p.placement,
                                       .persistent = true,
                                       .accumulator = true,
                                       .layer = p.layer});
  accumulators_[parameter] = id;
  return id;
}

// How the next op must treat the accumulators that it writes: the first writer overwrites in a step's first
// micro-batch, every later writer adds. The accumulators of one op must agree.
Accumulate GradientBuilder::first_or_add(const std::vector<ValueId>& outputs) {
  int fresh = 0, seen = 0;
  for (ValueId out : outputs) {
    if (out == kNone || !graph_.value(out).accumulator) continue;
    (graph_.value(out).producer == kNone ? fresh : seen) += 1;
  }
  require(fresh == 0 || seen == 0, "an op writes accumulators of which only some were written before");
  if (fresh + seen == 0) return Accumulate::kNever;
  return seen ? Accumulate::kAlways : Accumulate::kAfterFirstMicroBatch;
}

ValueId GradientBuilder::emit(const std::string& suffix, const std::string& kind, Attributes attributes,
                              std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  ops_.common().layer = forward().layer;
  ops_.common().accumulate = first_or_add(outputs);
  const Op& op = ops_.append(forward().name + "/" + suffix, kind, std::move(attributes), std::move(inputs),
                             std::move(outputs));
  return op.outputs.empty() ? kNone : op.outputs.front();
}

std::vector<ValueId> GradientBuilder::extend_forward(const std::string& attribute,
                                                     std::vector<ValueId> outputs) {
  Op& op = graph_.op(current_);
  op.attributes.set(attribute, int64_t{1});
  first_or_add(outputs);
  const std::vector<OutputSpec> specs = op.def->infer(OpView{graph_, op});
  require(specs.size() == op.outputs.size() + outputs.size(), "extend_forward: the outputs do not match");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& spec = specs[op.outputs.size()];
    if (outputs[i] == kNone)
      outputs[i] = graph_.add_value({.name = op.name + "/" + spec.suffix,
                                     .shape = spec.shape,
                                     .dtype = spec.dtype,
                                     .category = spec.category,
                                     .placement = spec.placement,
                                     .layer = op.layer});
    Value& value = graph_.value(outputs[i]);
    require(value.shape == spec.shape && value.dtype == spec.dtype,
            "extend_forward: an output has another shape");
    if (value.producer == kNone) value.producer = current_;
    op.outputs.push_back(outputs[i]);
  }
  return outputs;
}

// Visits the forward ops in reverse order. An op is differentiated if it makes a loss or if a gradient has
// arrived at one of its outputs; all readers of its outputs have contributed by then.
Gradients differentiate(Graph& graph, const OpRegistry& registry, const std::vector<ValueId>& targets,
                        const std::vector<GradientSeed>& seeds) {
  GradientBuilder builder(graph, registry, targets);
  std::vector<char> is_loss(graph.values().size(), 0);
  for (const GradientSeed& seed : seeds) {
    if (seed.gradient == kNone)
      is_loss.at(seed.value) = 1;
    else
      builder.arrived_[seed.value] = seed.gradient;
  }
  for (OpId id = static_cast<OpId>(graph.ops().size()) - 1; id >= 0; --id) {
    const Op& op = graph.op(id);
    const bool reached = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return v != kNone &&
             ((v < static_cast<ValueId>(is_loss.size()) && is_loss[v]) || builder.upstream(v) != kNone);
    });
    if (!reached || !op.def->gradient) continue;
    builder.current_ = id;
    op.def->gradient(builder, id);
  }
  Gradients result;
  for (ValueId target : targets) {
    if (const auto it = builder.accumulators_.find(target); it != builder.accumulators_.end())
      result[target] = it->second;
    else if (const ValueId gradient = builder.upstream(target); gradient != kNone)
      result[target] = gradient;
  }
  return result;
}

}  // namespace recollect
