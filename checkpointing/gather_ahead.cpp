#include "checkpointing/gather_ahead.h"

#include <algorithm>
#include <utility>

#include "checkpointing/recompute.h"
#include "engine/graph/op_def.h"

namespace recollect {

namespace {

class Mover {
 public:
  explicit Mover(Graph& graph)
      : graph_(graph),
        behind_(graph.ops().size()),
        place_(graph.ops().size()),
        last_use_(graph.values().size(), kNone) {
    for (OpId id = 0; id < size(); ++id) {
      place_[id] = id;
      if (graph.op(id).phase == Phase::kForward) forward_end_ = id;
      for (ValueId v : graph.op(id).inputs)
        if (v != kNone) last_use_[v] = id;
    }
  }

  void run() {
    OpId free = making_a_value(forward_end_, -1);
    for (OpId id = 0; id < size(); ++id) {
      const Op& op = graph_.op(id);
      if (op.stream != StreamId::kGather || op.phase != Phase::kBackward) continue;
      begin_behind(free != kNone && free < id ? free : making_a_value(id - 1, -1), id);
      free = making_a_value(last_use_[op.outputs.front()], 1);
    }
    std::vector<Op> merged;
    merged.reserve(graph_.ops().size());
    for (OpId id = 0; id < size(); ++id) {
      if (place_[id] == id) merged.push_back(std::move(graph_.op(id)));
      for (OpId moved : behind_[id]) merged.push_back(std::move(graph_.op(moved)));
    }
    graph_.set_ops(std::move(merged));
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
    return producer == kNone ? kNone : place_[producer];
  }

  void begin_behind(OpId start, OpId gather) {
    const OpId maker = graph_.value(graph_.op(gather).inputs.front()).producer;
    if (maker != kNone && place_[maker] > start) {
      const std::vector<ValueId>& needed = graph_.op(maker).inputs;
      const bool goes_too =
          is_recomputation(graph_.op(maker).name) &&
          std::all_of(needed.begin(), needed.end(), [&](ValueId v) { return there_behind(v) <= start; });
      if (goes_too)
        move(maker, start);
      else
        start = maker;
    }
    graph_.op(gather).after.push_back(value_of(start));
    move(gather, start);
  }

  void move(OpId id, OpId start) {
    place_[id] = start;
    behind_[start].push_back(id);
  }

  Graph& graph_;
  std::vector<std::vector<OpId>> behind_;  // by op: those that moved behind it
  std::vector<OpId> place_;                // by op: itself, or behind which it stands now
  std::vector<OpId> last_use_;             // by value
  OpId forward_end_ = 0;
};

}  // namespace

void gather_ahead(Graph& graph) {
  const std::vector<Op>& ops = graph.ops();
  if (std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.stream == StreamId::kGather; }))
    Mover(graph).run();
}

}  // namespace recollect
