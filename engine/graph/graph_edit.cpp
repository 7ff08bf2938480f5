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

void GraphEdit::replace_input(OpId id, ValueId from, ValueId to) {
  std::vector<ValueId>& inputs = op(id).inputs;
  std::replace(inputs.begin(), inputs.end(), from, to);
}

void GraphEdit::append(OpId id, std::vector<Op>& to) {
  const Spot& spot = spots_[id];
  for (OpId other : spot.before) append(other, to);
  to.push_back(std::move(op(id)));
  for (OpId other : spot.after) append(other, to);
}

void GraphEdit::commit() {
  std::vector<Op> ops;
  ops.reserve(spots_.size());
  for (OpId id : graph_.op_ids())
    if (spots_[id].place == id) append(id, ops);
  require(ops.size() == spots_.size(), "ops were moved behind each other");
  graph_.set_ops(std::move(ops));
}

}  // namespace recollect
