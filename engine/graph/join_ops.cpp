#include "engine/graph/join_ops.h"

#include <algorithm>
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

// Returns true if `op` passes on to the ranks, unchanged, the only value that `second` reads.
bool hands_on(const Op& op, const Op& second) {
  return op.def->passes_on && op.def->unit == Unit::kCopy && second.inputs.size() == 1 &&
         second.inputs.front() == op.outputs.front() && second.after.empty() && belong_together(op, second);
}

// `between`: the op that passes on the output of `first`; null if there is none.
bool can_join(const Graph& graph, const Op& first, const Op* between, const Op& second) {
  const OpDef::Joint& joint = first.def->joint;
  return !joint.next.empty() && second.def->name == joint.next && (!joint.fits || joint.fits(first)) &&
         (between ? *between : second).inputs.front() == first.outputs.at(joint.output) &&
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

bool touches(const Op& op, ValueId value) {
  const auto among = [&](const std::vector<ValueId>& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return among(op.inputs) || among(op.outputs);
}

bool can_take_over(const Graph& graph, const Op& op, const Op& sum) {
  const Value &of_op = graph.value(op.outputs.front()), &of_sum = graph.value(sum.outputs.front());
  return sum.outputs.size() == 1 && of_op.placement == of_sum.placement && belong_together(sum, op) &&
         !any_is_pooled(graph, sum) && !any_is_pooled(graph, op);
}

// Returns the index among `earlier` ops of the one whose sums `op` can compute, or their number if there is
// none.
std::size_t sum_for(const Graph& graph, const std::vector<Op>& earlier, const Op& op) {
  const OpDef::SumsToo& too = op.def->sums_too;
  if (too.kind.empty() || op.attributes.integer(too.attribute) != 0) return earlier.size();
  const ValueId of = op.inputs.at(too.input);
  for (std::size_t at = earlier.size(); at-- > 0;) {
    const Op& sum = earlier[at];
    const std::vector<ValueId>& made = sum.outputs;
    if (std::find(made.begin(), made.end(), of) != made.end()) break;  // no op before this one has read it
    if (sum.def->name != too.kind || sum.inputs.front() != of) continue;
    const auto between = earlier.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const bool untouched =
        std::none_of(between, earlier.end(), [&](const Op& other) { return touches(other, made.front()); });
    if (untouched && can_take_over(graph, op, sum)) return at;
  }
  return earlier.size();
}

}  // namespace

void join_ops(Graph& graph, const OpRegistry& registry) {
  std::vector<Op> ops;
  for (const Op& op : graph.ops()) {
    const Op* between = ops.size() > 1 && hands_on(ops.back(), op) ? &ops.back() : nullptr;
    Op* first = ops.empty() ? nullptr : &ops[ops.size() - (between ? 2 : 1)];
    if (first && can_join(graph, *first, between, op))
      *first = joined(registry, std::move(*first), op);
    else
      ops.push_back(op);
  }
  graph.set_ops(std::move(ops));
}

void join_sums(Graph& graph) {
  std::vector<Op> ops;
  for (Op op : graph.ops()) {
    const std::size_t at = sum_for(graph, ops, op);
    if (at < ops.size()) {
      const Op& sum = ops[at];
      op.attributes.set(op.def->sums_too.attribute, int64_t{1});
      op.outputs.push_back(sum.outputs.front());
      op.after.insert(op.after.end(), sum.after.begin(), sum.after.end());
      ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ops.push_back(std::move(op));
  }
  graph.set_ops(std::move(ops));
}

}  // namespace recollect
