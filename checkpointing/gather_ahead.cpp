#include "checkpointing/gather_ahead.h"

#include <algorithm>

#include "engine/graph/graph_edit.h"

namespace recollect {

namespace {

class Mover {
 public:
  explicit Mover(Graph& graph) : graph_(graph), edit_(graph), last_use_(graph.values().size(), kNone) {
    for (OpId id : graph.op_ids()) {
      if (graph.op(id).phase == Phase::kForward) forward_end_ = id;
      for (ValueId v : graph.op(id).inputs)
        if (v != kNone) last_use_[v] = id;
    }
  }

  void run() {
    OpId free = making_a_value(forward_end_, -1);
    for (OpId id : graph_.op_ids()) {
      const Op& op = graph_.op(id);
      if (op.stream != StreamId::kGather || op.phase != Phase::kBackward) continue;
      begin_behind(free != kNone && free < id ? free : making_a_value(id - 1, -1), id);
      free = making_a_value(last_use_[op.outputs.front()], 1);
    }
    edit_.commit();
  }

 private:
  OpId size() const { return static_cast<OpId>(graph_.ops().size()); }

  // The value by which one knows that a compute op is over; kNone if it makes none that only it writes.
  ValueId value_of(OpId id) const {
    if (graph_.op(id).stream == StreamId::kCompute)
      for (ValueId v : graph_.op(id).outputs)
        if (v != kNone && !graph_.value(v).accumulator) return v;
    return kNone;
  }

  // The first op from `id` on, in that direction, that makes such a value.
  OpId making_a_value(OpId id, int direction) const {
    while (id >= 0 && id < size() && value_of(id) == kNone) id += direction;
    return id >= 0 && id < size() ? id : kNone;
  }

  // Where a value is there: behind that op.
  OpId there_behind(ValueId v) const {
    const OpId producer = v == kNone ? kNone : graph_.value(v).producer;
    return producer == kNone ? kNone : edit_.place(producer);
  }

  void begin_behind(OpId start, OpId gather) {
    const OpId maker = graph_.value(graph_.op(gather).inputs.front()).producer;
    if (maker != kNone && edit_.place(maker) > start) {
      const std::vector<ValueId>& needed = graph_.op(maker).inputs;
      const bool goes_too =
          graph_.op(maker).role == Role::kRecompute &&
          std::all_of(needed.begin(), needed.end(), [&](ValueId v) { return there_behind(v) <= start; });
      if (goes_too)
        edit_.move_after(maker, start);
      else
        start = maker;
    }
    graph_.op(gather).after.push_back(value_of(start));
    edit_.move_after(gather, start);
  }

  Graph& graph_;
  GraphEdit edit_;
  std::vector<OpId> last_use_;  // by value
  OpId forward_end_ = 0;
};

}  // namespace

void gather_ahead(Graph& graph) {
  const std::vector<Op>& ops = graph.ops();
  if (std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.stream == StreamId::kGather; }))
    Mover(graph).run();
}

}  // namespace recollect
