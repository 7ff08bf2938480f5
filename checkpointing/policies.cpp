#include "checkpointing/policies.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/graph/op_def.h"

namespace recollect {

namespace {

int64_t ceil_sqrt(int64_t n) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  return root;
}

// Segments of k layers, the first one shorter where k does not divide: the inputs of each, and all of the
// last.
void keep_segments(const Graph& graph, const std::vector<ValueId>& inputs, int64_t k, Plan& plan) {
  const auto layers = static_cast<int64_t>(inputs.size());
  const int64_t last = std::max<int64_t>(0, layers - k);
  for (int64_t layer = last; layer > 0; layer -= k)
    plan.values.at(graph.value(inputs[layer]).name).keep = true;
  plan.values.at(graph.value(inputs[0]).name).keep = true;
  for (ValueId v : saved_values(graph)) {
    const Value& value = graph.value(v);
    if (value.layer >= last || v == inputs[last]) plan.values.at(value.name).keep = true;
  }
}

// The first layer's input and all of the last layer; with `midpoints` also the inputs met when halving the
// way between them, again and again.
void keep_path(const Graph& graph, const std::vector<ValueId>& inputs, bool midpoints, Plan& plan) {
  const auto layers = static_cast<int64_t>(inputs.size());
  for (ValueId v : saved_values(graph))
    if (graph.value(v).layer == layers - 1 || graph.value(v).layer < 0)
      plan.values.at(graph.value(v).name).keep = true;
  plan.values.at(graph.value(inputs[0]).name).keep = true;
  plan.values.at(graph.value(inputs[layers - 1]).name).keep = true;
  for (int64_t low = 0; midpoints && layers - low > 1;) {
    low = (low + layers) / 2;
    plan.values.at(graph.value(inputs[low]).name).keep = true;
  }
}

// Of the op that made it, or of the one whose value it only hands to the ranks.
std::string_view group_of(const Graph& graph, const Value& value) {
  const Op& op = graph.op(value.producer);
  return op.def->name == "copy_to_ranks" ? group_of(graph, graph.value(op.inputs.at(0))) : op.def->group;
}

void keep_unless_in_groups(const Graph& graph, const std::vector<std::string>& groups, Plan& plan) {
  const std::set<std::string_view> chosen(groups.begin(), groups.end());
  for (ValueId v : saved_values(graph)) {
    const Value& value = graph.value(v);
    const std::string_view group = group_of(graph, value);
    const bool in_mlp = value.name.find("/mlp/") != std::string::npos && !group.empty();
    const bool recompute =
        !is_statistic(graph, v) && (chosen.contains(group) || (chosen.contains("mlp") && in_mlp));
    plan.values.at(value.name).keep = !recompute || value.layer < 0;
  }
  for (ValueId input : layer_inputs(graph)) plan.values.at(graph.value(input).name).keep = true;
}

// By value: whether an op that is of no layer reads it.
std::vector<char> read_outside_layers(const Graph& graph) {
  std::vector<char> read(graph.values().size(), 0);
  for (const Op& op : graph.ops())
    for (ValueId v : op.inputs)
      if (op.layer < 0 && v != kNone) read[v] = 1;
  return read;
}

}  // namespace

std::vector<std::string> cheap_groups() { return {"norm", "activation"}; }

Plan make_plan(const Graph& graph, const PolicySettings& s) {
  Plan plan;
  const std::vector<ValueId> saved = saved_values(graph), inputs = layer_inputs(graph);
  const bool all = s.mode == "none" || inputs.empty();
  for (ValueId v : saved) plan.values[graph.value(v).name] = {.keep = all || graph.value(v).layer < 0};
  if (!all) {
    const auto layers = static_cast<int64_t>(inputs.size());
    if (s.mode == "full") {
      for (ValueId v : inputs) plan.values.at(graph.value(v).name).keep = true;
      // What the ops after the last layer read is that layer's output.
      const std::vector<char> outside = read_outside_layers(graph);
      for (ValueId v : saved)
        if (outside[v]) plan.values.at(graph.value(v).name).keep = true;
    } else if (s.mode == "every_k") {
      keep_segments(graph, inputs, s.k, plan);
    } else if (s.mode == "sqrt") {
      keep_segments(graph, inputs, ceil_sqrt(layers), plan);
    } else if (s.mode == "selective") {
      keep_unless_in_groups(graph, s.recompute.empty() ? cheap_groups() : s.recompute, plan);
    } else if (s.mode == "recursive" || s.mode == "constant_memory") {
      keep_path(graph, inputs, s.mode == "recursive", plan);
      plan.replay = s.mode == "recursive" ? Replay::kBisect : Replay::kNothing;
    } else {
      throw Error(ExitCode::kConfiguration, "activation_checkpointing.mode: unknown mode '" + s.mode + "'");
    }
  }
  for (ValueId v : saved) {
    const Value& value = graph.value(v);
    Decision& decision = plan.values.at(value.name);
    const bool of_a_layer = value.layer >= 0 || (!inputs.empty() && v == inputs[0]);
    decision.partition =
        s.partition && decision.keep && of_a_layer && !value.placement.is_sharded_over(kTensorAxis);
    decision.host = s.host && decision.keep && of_a_layer;
    decision.disk = s.disk && decision.keep && of_a_layer;
  }
  return plan;
}

}  // namespace recollect
