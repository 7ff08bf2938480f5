#include "engine/graph/graph_edit.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"

namespace recollect {

GraphEdit::GraphEdit(Graph& graph) : graph_(graph), spots_(graph.ops().size()) {
  for (OpId id : graph.op_ids()) spots_[id].place = id;
}

const Op& GraphEdit::op(OpId id) const {
  const auto old = static_cast<OpId>(graph_.ops().size());
  return id < old ? std::as_const(graph_).op(id) : new_ops_.at(id - old);
}

Op& GraphEdit::op(OpId id) { return const_cast<Op&>(std::as_const(*this).op(id)); }

OpId GraphEdit::add(Op op, OpId place) {
  graph_.infer_outputs(op);
  new_ops_.push_back(std::move(op));
  spots_.push_back({.place = place});
  return static_cast<OpId>(spots_.size()) - 1;
}

OpId GraphEdit::insert_before(OpId place, Op op) {
  const OpId id = add(std::move(op), place);
  spots_.at(place).before.push_back(id);
  return id;
}

OpId GraphEdit::insert_after(OpId place, Op op) {
  const OpId id = add(std::move(op), place);
  spots_.at(place).after.push_back(id);
  return id;
}

void GraphEdit::move_after(OpId id, OpId place) {
  require(spots_.at(id).place == id && place != id, op(id).name + " is moved twice");
  spots_[id].place = place;
  spots_.at(place).after.push_back(id);
}

void GraphEdit::drop(OpId id) { spots_.at(id).dropped = true; }

void GraphEdit::replace_input(OpId id, ValueId from, ValueId to) {
  std::vector<ValueId>& inputs = op(id).inputs;
  std::replace(inputs.begin(), inputs.end(), from, to);
}

void GraphEdit::append(OpId id, std::vector<Op>& to) {
  const Spot& spot = spots_[id];
  for (OpId other : spot.before) append(other, to);
  if (!spot.dropped) to.push_back(std::move(op(id)));
  for (OpId other : spot.after) append(other, to);
}

void GraphEdit::check_dropped() const {
  std::vector<char> gone(graph_.values().size(), 0);
  std::size_t dropped = 0;
  const auto count = static_cast<OpId>(spots_.size());
  for (OpId id = 0; id < count; ++id) {
    if (!spots_[id].dropped) continue;
    ++dropped;
    for (ValueId v : op(id).outputs)
      if (v != kNone && !graph_.value(v).accumulator) gone[v] = 1;
  }
  if (dropped == 0) return;
  for (OpId id = 0; id < count; ++id)
    for (ValueId v : op(id).inputs)
      require(spots_[id].dropped || v == kNone || !gone[v],
              op(id).name + " reads what an op made that was dropped");
}

void GraphEdit::commit() {
  check_dropped();
  const auto staying = static_cast<std::size_t>(
      std::count_if(spots_.begin(), spots_.end(), [](const Spot& spot) { return !spot.dropped; }));
  std::vector<Op> ops;
  ops.reserve(staying);
  for (OpId id : graph_.op_ids())
    if (spots_[id].place == id) append(id, ops);
  require(ops.size() == staying, "ops were moved behind each other");
  graph_.set_ops(std::move(ops));
}

}  // namespace recollect
