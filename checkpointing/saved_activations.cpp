#include "checkpointing/saved_activations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/graph/op_def.h"

namespace recollect {

namespace {

// An op that adds into accumulators cannot run twice.
bool can_rerun(const Graph& graph, const Op& op) {
  return std::none_of(op.outputs.begin(), op.outputs.end(),
                      [&](ValueId v) { return v != kNone && graph.value(v).accumulator; });
}

// A number a row, or what stands beside an op's first output and is not its like.
bool is_aside(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  const ValueId first = graph.op(value.producer).outputs.front();
  if (value.shape.rank() == 1) return true;
  return first != v && (first == kNone || graph.value(first).shape != value.shape ||
                        graph.value(first).dtype != value.dtype);
}

// Of nothing, or of whole numbers that came with the batch.
bool has_no_activations(const Graph& graph, const Op& op) {
  return std::all_of(op.inputs.begin(), op.inputs.end(),
                     [&](ValueId v) { return v == kNone || graph.value(v).dtype == DType::kI32; });
}

}  // namespace

SavedActivations::SavedActivations(const Graph& graph) : facts_(graph.values().size()) {
  note_facts(graph);
  find_values(graph);
  find_layer_inputs(graph);
  add_layer_inputs(graph);
}

void SavedActivations::note_facts(const Graph& graph) {
  for (ValueId v : graph.value_ids()) {
    const Value& value = graph.value(v);
    if (value.producer == kNone) continue;
    const Op& producer = graph.op(value.producer);
    if (is_aside(graph, v)) facts_[v] |= kStatistic;
    if (value.persistent || producer.phase != Phase::kForward) continue;
    facts_[v] |= kForward;
    if (producer.def->gathers) facts_[v] |= kGathered;
  }
}

void SavedActivations::find_values(const Graph& graph) {
  std::set<std::pair<OpId, ValueId>> found;  // by producer: program order
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackward) continue;
    for (ValueId v : op.inputs) {
      while (is_gathered(v)) v = graph.op(graph.value(v).producer).inputs.front();
      if (has(v, kForward) && can_rerun(graph, graph.op(graph.value(v).producer)))
        found.insert({graph.value(v).producer, v});
    }
  }
  for (const auto& [producer, v] : found) values_.push_back(v);
}

void SavedActivations::add_layer_inputs(const Graph& graph) {
  const auto earlier = [&](ValueId a, ValueId b) {
    return std::pair(graph.value(a).producer, a) < std::pair(graph.value(b).producer, b);
  };
  for (ValueId v : layer_inputs_) {
    if (v == kNone) continue;
    const auto place = std::lower_bound(values_.begin(), values_.end(), v, earlier);
    if (place != values_.end() && *place == v) continue;
    values_.insert(place, v);
    facts_[v] |= kOnlyInput;
  }
}

void SavedActivations::find_layer_inputs(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kForward || op.layer < 0) continue;
    layer_inputs_.resize(std::max<std::size_t>(layer_inputs_.size(), op.layer + 1), kNone);
    for (ValueId v : op.inputs) {
      if (!has(v, kForward)) continue;
      const Op& producer = graph.op(graph.value(v).producer);
      if (producer.layer == op.layer || has_no_activations(graph, producer)) continue;
      require(layer_inputs_[op.layer] == kNone || layer_inputs_[op.layer] == v,
              "a layer takes one value from those before it");
      layer_inputs_[op.layer] = v;
    }
  }
}

}  // namespace recollect
