#include "engine/runtime/schedule.h"

#include <algorithm>
#include <array>

namespace recollect {

namespace {

using PerStream = std::array<OpId, kStreamCount>;  // the latest op of each stream; kNone if there is none

constexpr PerStream kNobody = [] {
  PerStream nobody{};
  nobody.fill(kNone);
  return nobody;
}();

void raise(PerStream& latest, StreamId stream, OpId op) {
  OpId& slot = latest[static_cast<int>(stream)];
  slot = std::max(slot, op);
}

struct Access {
  PerStream writers = kNobody;
  PerStream readers = kNobody;
};

// Returns the latest op of each stream that must be done before `op`: writers of what it reads, readers and
// writers of what it overwrites.
PerStream dependencies(const Op& op, const std::vector<Access>& accesses) {
  PerStream needed = kNobody;
  for (const auto* list : {&op.inputs, &op.after})
    for (ValueId v : *list)
      for (int s = 0; s < kStreamCount && v != kNone; ++s)
        raise(needed, static_cast<StreamId>(s), accesses[v].writers[s]);
  for (ValueId v : op.outputs)
    if (v != kNone)
      for (int s = 0; s < kStreamCount; ++s) {
        raise(needed, static_cast<StreamId>(s), accesses[v].writers[s]);
        raise(needed, static_cast<StreamId>(s), accesses[v].readers[s]);
      }
  return needed;
}

}  // namespace

// Goes through the ops in program order. Since a stream runs in order, an op waits only for the latest op of
// each other stream that it depends on, and not at all if its own stream has already waited for that op or a
// later one.
Schedule make_schedule(const Graph& graph) {
  Schedule schedule;
  schedule.waits.resize(graph.ops().size());
  schedule.waited_for.assign(graph.ops().size(), 0);
  std::vector<Access> accesses(graph.values().size());
  std::array<PerStream, kStreamCount> seen{};  // by stream: what it has already waited for
  seen.fill(kNobody);
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    const PerStream needed = dependencies(op, accesses);
    PerStream& known = seen[static_cast<int>(op.stream)];
    for (int s = 0; s < kStreamCount; ++s) {
      if (static_cast<StreamId>(s) == op.stream || needed[s] == kNone || needed[s] <= known[s]) continue;
      known[s] = needed[s];
      schedule.waits[id].push_back(needed[s]);
      schedule.waited_for[needed[s]] = 1;
    }
    for (ValueId v : op.inputs)
      if (v != kNone) raise(accesses[v].readers, op.stream, id);
    for (ValueId v : op.outputs)
      if (v != kNone) raise(accesses[v].writers, op.stream, id);
  }
  return schedule;
}

std::vector<Span> op_spans(const Graph& graph, const Schedule& schedule) {
  const OpId count = static_cast<OpId>(graph.ops().size());
  std::vector<Span> spans(count);
  std::array<int64_t, kStreamCount> begun{};  // a stream's ops begin in order
  begun.fill(-1);
  for (OpId id = 0; id < count; ++id) {
    int64_t& begin = begun[static_cast<int>(graph.op(id).stream)];
    if (graph.op(id).stream == StreamId::kCompute) {
      begin = 2 * id;
    } else {
      for (OpId before : schedule.waits[id])
        begin = std::max(begin, graph.op(before).stream == StreamId::kCompute ? int64_t{2} * before + 1
                                                                              : spans[before].begin);
    }
    spans[id].begin = begin;
  }
  // Backwards: an op has certainly ended once a compute op waits for it, for a later op of its stream, or for
  // an op of another stream that itself waits for one of these.
  std::array<int64_t, kStreamCount> ended{};
  ended.fill(kForever);
  std::vector<int64_t> waited_by(count, kForever);
  for (OpId id = count - 1; id >= 0; --id) {
    const int stream = static_cast<int>(graph.op(id).stream);
    const bool compute = graph.op(id).stream == StreamId::kCompute;
    if (!compute) ended[stream] = std::min(ended[stream], waited_by[id]);
    spans[id].end = compute ? int64_t{2} * id : ended[stream];
    for (OpId before : schedule.waits[id]) {
      const int64_t known = compute ? int64_t{2} * id - 1 : spans[id].end;
      waited_by[before] = std::min(waited_by[before], known);
    }
  }
  return spans;
}

}  // namespace recollect
