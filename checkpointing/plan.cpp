#include "checkpointing/plan.h"

#include <algorithm>
#include <set>

#include "engine/graph/op_def.h"

namespace recollect {

std::string_view name_of(Replay replay) {
  constexpr std::string_view names[] = {"segment", "bisect", "nothing"};
  return names[static_cast<int>(replay)];
}

std::string word_of(const Decision& decision) {
  if (!decision.keep) return "recompute";
  std::string word;
  for (const auto& [on, name] :
       {std::pair{decision.partition, "partitioned"}, {decision.host, "host"}, {decision.disk, "disk"}})
    if (on) word += (word.empty() ? "" : "+") + std::string(name);
  return word.empty() ? "device" : word;
}

bool is_statistic(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  return value.shape.rank() == 1 || graph.op(value.producer).outputs.front() != v;
}

namespace {

// An op that adds into accumulators cannot run twice.
bool can_rerun(const Graph& graph, const Op& op) {
  return std::none_of(op.outputs.begin(), op.outputs.end(),
                      [&](ValueId v) { return v != kNone && graph.value(v).accumulator; });
}

bool made_going_forward(const Graph& graph, ValueId v) {
  const OpId producer = graph.value(v).producer;
  return producer != kNone && !graph.value(v).persistent && graph.op(producer).phase == Phase::kForward;
}

}  // namespace

bool is_gathered(const Graph& graph, ValueId v) {
  return made_going_forward(graph, v) && graph.op(graph.value(v).producer).def->name == "all_gather";
}

std::vector<ValueId> saved_values(const Graph& graph) {
  std::set<std::pair<OpId, ValueId>> found;  // by producer: program order
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackward) continue;
    for (ValueId v : op.inputs) {
      while (v != kNone && is_gathered(graph, v)) v = graph.op(graph.value(v).producer).inputs.front();
      if (v != kNone && made_going_forward(graph, v) && can_rerun(graph, graph.op(graph.value(v).producer)))
        found.insert({graph.value(v).producer, v});
    }
  }
  std::vector<ValueId> values;
  for (const auto& [producer, v] : found) values.push_back(v);
  return values;
}

std::vector<ValueId> layer_inputs(const Graph& graph) {
  std::vector<ValueId> inputs;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kForward || op.layer < 0) continue;
    inputs.resize(std::max<std::size_t>(inputs.size(), op.layer + 1), kNone);
    for (ValueId v : op.inputs) {
      if (v == kNone || !made_going_forward(graph, v) || graph.op(graph.value(v).producer).layer == op.layer)
        continue;
      require(inputs[op.layer] == kNone || inputs[op.layer] == v,
              "a layer takes one value from those before it");
      inputs[op.layer] = v;
    }
  }
  return inputs;
}

std::string to_yaml(const Plan& plan) {
  std::string text = "replay: " + std::string(name_of(plan.replay)) + "\nvalues:\n";
  for (const auto& [name, decision] : plan.values) text += "  " + name + ": " + word_of(decision) + "\n";
  return text;
}

}  // namespace recollect
