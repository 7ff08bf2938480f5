// Graphs of a few ops to try a pass on, and what it makes of them as text: a line for each op.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpointing/residency_ops.h"
#include "checkpointing/saved_activations.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "engine/graph/op_builder.h"
#include "engine/ops/ops.h"

namespace recollect::test {

class SmallGraph {
 public:
  SmallGraph() {
    register_engine_ops(registry);
    register_comm_ops(registry);
    register_checkpointing_ops(registry);
    register_verify_ops(registry);
  }

  ValueId input(const std::string& name, Shape shape = {4, 6}, DType dtype = DType::kF32) {
    return graph.add_value(
        {.name = name, .shape = shape, .dtype = dtype, .category = Category::kInput, .persistent = true});
  }

  // Of the ops that follow.
  void enter(Phase phase, int layer) {
    ops.common().phase = phase;
    ops.common().layer = layer;
  }

  // An op of which nothing matters but what it reads: `add`, of one value twice or of two.
  ValueId op(const std::string& name, std::vector<ValueId> inputs) {
    if (inputs.size() == 1) inputs.push_back(inputs.front());
    return op(name, "add", std::move(inputs));
  }
  ValueId op(const std::string& name, const char* kind, std::vector<ValueId> inputs,
             Attributes attributes = {}) {
    return ops.append(name, kind, std::move(attributes), std::move(inputs)).outputs.front();
  }

  OpRegistry registry;
  Graph graph;
  OpBuilder ops{graph, registry};
};

// e, then layers of two ops each, of which the first reads the layer's input, and f behind them:
//
//   e(x)  a0(e) b0(a0)  a1(b0) b1(a1)  ...  f(b1)
//
// Backward reads what each op has read: gb1 reads a1, ga1 reads b0.
class LayeredGraph : public SmallGraph {
 public:
  explicit LayeredGraph(int layers) {
    enter(Phase::kForward, -1);
    ValueId x = op("e", {input("x")});
    std::vector<ValueId> into, inner;
    for (int i = 0; i < layers; ++i) {
      enter(Phase::kForward, i);
      into.push_back(x);
      inner.push_back(op("a" + std::to_string(i), {x}));
      x = op("b" + std::to_string(i), {inner.back()});
    }
    enter(Phase::kForward, -1);
    const ValueId f = op("f", {x});
    enter(Phase::kBackward, -1);
    ValueId gradient = op("gf", {f, x});
    for (int i = layers - 1; i >= 0; --i) {
      enter(Phase::kBackward, i);
      gradient = op("gb" + std::to_string(i), {gradient, inner[static_cast<std::size_t>(i)]});
      gradient = op("ga" + std::to_string(i), {gradient, into[static_cast<std::size_t>(i)]});
    }
  }
};

inline std::string names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && values[i] == values[i - 1]) continue;  // an `add` of one value
    text += (text.empty() ? "" : " ") + (values[i] == kNone ? "-" : graph.value(values[i]).name);
  }
  return text;
}

// "gathered/g(p) on gather after b": what it reads, on which stream if it is not compute's, what it waits for.
inline std::string text_of(const Graph& graph, const Op& op) {
  std::string text = op.name + "(" + names_of(graph, op.inputs) + ")";
  if (op.stream != StreamId::kCompute) text += " on " + std::string(name_of(op.stream));
  if (!op.after.empty()) text += " after " + names_of(graph, op.after);
  return text;
}

// A line for each op, the first after a line break, as a raw string has it. Of one phase where one is given.
inline std::string text_of(const Graph& graph) {
  std::string text = "\n";
  for (const Op& op : graph.ops()) text += text_of(graph, op) + "\n";
  return text;
}
inline std::string text_of(const Graph& graph, Phase phase) {
  std::string text = "\n";
  for (const Op& op : graph.ops())
    if (op.phase == phase) text += text_of(graph, op) + "\n";
  return text;
}

// A plan that saves what is named, and recomputes the rest.
inline Plan plan_to_save(const Graph& graph, const SavedActivations& saved,
                         const std::vector<std::string_view>& names) {
  Plan plan;
  for (ValueId v : saved.values()) {
    const std::string& name = graph.value(v).name;
    plan.values[name].save = std::find(names.begin(), names.end(), name) != names.end();
  }
  return plan;
}

}  // namespace recollect::test
