#include "engine/graph/join_ops.h"

#include <utility>

namespace recollect {

namespace {

bool belong_together(const Op& a, const Op& b) {
  return a.phase == b.phase && a.when == b.when && a.role == b.role && a.stream == b.stream &&
         a.accumulate == b.accumulate;
}

bool any_is_pooled(const Graph& graph, const Op& op) {
  for (const ValueId out : op.outputs)
    if (out != kNone && graph.value(out).pooled) return true;
  return false;
}

bool can_join(const Graph& graph, const Op& first, const Op& second) {
  const OpDef::Joint& joint = first.def->joint;
  return !joint.next.empty() && second.def->name == joint.next && (!joint.fits || joint.fits(first)) &&
         first.outputs.size() == 1 && second.inputs.front() == first.outputs.front() &&
         belong_together(first, second) && !any_is_pooled(graph, first) && !any_is_pooled(graph, second);
}

Op joined(const OpRegistry& registry, Op first, const Op& second) {
  first.def = registry.find(first.def->joint.joined);
  for (const auto& [name, value] : second.attributes.items()) first.attributes.set(name, value);
  first.inputs.insert(first.inputs.end(), second.inputs.begin() + 1, second.inputs.end());
  first.outputs.insert(first.outputs.end(), second.outputs.begin(), second.outputs.end());
  first.after.insert(first.after.end(), second.after.begin(), second.after.end());
  return first;
}

}  // namespace

void join_ops(Graph& graph, const OpRegistry& registry) {
  std::vector<Op> ops;
  for (const Op& op : graph.ops()) {
    if (!ops.empty() && can_join(graph, ops.back(), op))
      ops.back() = joined(registry, std::move(ops.back()), op);
    else
      ops.push_back(op);
  }
  graph.set_ops(std::move(ops));
}

}  // namespace recollect
