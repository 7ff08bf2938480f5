#include "checkpointing/planner/plan_bounds.h"

#include <algorithm>
#include <map>

#include "checkpointing/op_time.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

bool writes_accumulators(const Graph& graph, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return v != kNone && graph.value(v).accumulator; });
}

bool may_take_over(const Op& op, ValueId output) {
  return std::any_of(op.def->in_place.begin(), op.def->in_place.end(), [&](const auto& pair) {
    return pair.first < static_cast<int>(op.outputs.size()) && op.outputs[pair.first] == output;
  });
}

}  // namespace

BoundMaker::BoundMaker(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
                       const Storage& storage, const std::vector<uint64_t>& workspaces)
    : graph_(graph),
      saved_(saved),
      storage_(storage),
      op_seconds_(graph.ops().size(), 0),
      for_layers_(graph.values().size(), 0),
      always_(graph.ops().size() + 1, 0),
      backward_(saved.layer_inputs().size(), kNone) {
  OpId last_of_layers = kNone;
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::kForward && op.layer >= 0) last_of_layers = id;
    const bool computes = op.stream == StreamId::kCompute;
    if (computes || op.phase == Phase::kForward) op_seconds_[id] = recollect::op_seconds(graph, op, device);
    if (computes) step_seconds_ += op_seconds_[id];
    if (computes && !workspaces.empty()) add(always_, id, id, aligned(workspaces[id]));
    if (op.phase != Phase::kBackward || op.layer < 0) continue;
    if (backward_.at(op.layer) == kNone) backward_[op.layer] = id;
    for (ValueId v : op.inputs)
      if (v != kNone && graph.value(v).producer <= last_of_layers) for_layers_[v] = 1;
  }
  note_values(last_of_layers);
}

void BoundMaker::add(Changes& changes, OpId from, OpId to, uint64_t bytes) {
  if (to < from) return;
  changes[from] += static_cast<int64_t>(bytes);
  changes[to + 1] -= static_cast<int64_t>(bytes);
}

// Transient, on the device, and of storage of its own.
bool BoundMaker::counts(ValueId v) const {
  const Value& value = graph_.value(v);
  return !persists(value) && !value.accumulator && value.group == kNone &&
         value.space == MemorySpace::kDevice;
}

// A forward value is there until forward's last op that reads it, and, whole, at each op of backward that does:
// between these it is the plan's. Others live from their first op to their last.
void BoundMaker::note_values(OpId last_of_layers) {
  std::vector<Waiting> of(graph_.values().size());
  std::vector<OpId> begin(graph_.values().size(), kNone), last(graph_.values().size(), kNone);
  for (OpId id : graph_.op_ids()) {
    const Op& op = graph_.op(id);
    for (ValueId v : op.outputs)
      if (v != kNone && begin[v] == kNone) begin[v] = id + (may_take_over(op, v) ? 1 : 0), last[v] = id;
    for (ValueId v : op.inputs) {
      if (v == kNone) continue;
      const Op* producer = graph_.value(v).producer == kNone ? nullptr : &graph_.op(graph_.value(v).producer);
      const bool waits = producer && producer->phase == Phase::kForward && op.phase != Phase::kForward;
      if (!waits)
        last[v] = id;
      else if (of[v].readers.empty() || of[v].readers.back() != id)
        of[v].readers.push_back(id);
    }
  }
  std::vector<char> decided(graph_.values().size(), 0);
  for (ValueId v : saved_.values()) decided[v] = 1;
  for (ValueId v : graph_.value_ids()) {
    of[v].value = v;
    of[v].forward_end = last[v];
    if (!counts(v) || decided[v] || begin[v] == kNone) continue;
    const uint64_t bytes = aligned(graph_.value(v).bytes());
    add(always_, begin[v], last[v], bytes);
    for (OpId id : of[v].readers)
      if (graph_.op(id).stream == StreamId::kCompute) add(always_, id, id, bytes);
  }
  int64_t now = 0, most = 0;
  for (OpId id : graph_.op_ids()) {
    now += always_[id];
    const Op& op = graph_.op(id);
    if (op.phase == Phase::kBackward && op.layer >= 0) break;
    if (id > last_of_layers) most = std::max(most, now);
  }
  behind_layers_ = static_cast<uint64_t>(most);
  for (ValueId v : saved_.values())
    if (counts(v)) add(always_, begin[v], last[v], aligned(graph_.value(v).bytes()));
  std::map<ValueId, int> places;
  for (ValueId v : saved_.values()) {
    places[v] = static_cast<int>(waiting_.size());
    waiting_.push_back(of[v]);
  }
  for (ValueId v : saved_.layer_inputs()) input_places_.push_back(places.at(v));
}

bool BoundMaker::is_missing(ValueId v, const std::vector<char>& is_saved, bool only_layers) const {
  if (v == kNone || is_saved[v]) return false;
  const Value& value = graph_.value(v);
  if (value.persistent || value.producer == kNone || (only_layers && value.layer < 0)) return false;
  const Op& producer = graph_.op(value.producer);
  return producer.phase == Phase::kForward && !writes_accumulators(graph_, producer);
}

double BoundMaker::recomputation(const std::vector<char>& is_saved, std::vector<ValueId> wanted,
                                 bool only_layers, std::vector<char>* read) const {
  std::vector<char> runs(graph_.ops().size(), 0);
  double seconds = 0;
  while (!wanted.empty()) {
    const ValueId v = wanted.back();
    wanted.pop_back();
    if (!is_missing(v, is_saved, only_layers)) {
      if (read && v != kNone) (*read)[v] = 1;
      continue;
    }
    const OpId id = graph_.value(v).producer;
    if (runs[id]) continue;
    runs[id] = 1;
    if (graph_.op(id).stream == StreamId::kCompute) seconds += op_seconds_[id];
    for (ValueId in : graph_.op(id).inputs) wanted.push_back(in);
  }
  return seconds;
}

uint64_t BoundMaker::held_bytes(ValueId v, const Decision& decision) const {
  if (!decision.save || decision.host || decision.disk) return 0;
  const Value& value = graph_.value(v);
  uint64_t bytes = value.bytes();
  if (storage_.bf16 && is_floating(value.dtype) && size_of(value.dtype) > size_of(DType::kBF16) &&
      !saved_.is_statistic(v))
    bytes = bytes / size_of(value.dtype) * size_of(DType::kBF16);
  if (decision.partition) bytes /= static_cast<uint64_t>(storage_.tensor_size);
  return aligned(bytes);
}

// The first op of backward of the last layer that is recomputed together with the one that this is the input of.
OpId BoundMaker::backward_of_segment(std::size_t place, const DraftPlan& plan) const {
  const auto found = std::find(input_places_.begin(), input_places_.end(), static_cast<int>(place));
  if (found == input_places_.end()) return 0;
  auto layer = static_cast<std::size_t>(found - input_places_.begin());
  while (layer + 1 < input_places_.size() && !plan.values[input_places_[layer + 1]].save) ++layer;
  return backward_[layer];
}

void BoundMaker::add_waiting(std::size_t place, const DraftPlan& plan, const std::vector<char>& read,
                             Changes& changes) const {
  const Waiting& w = waiting_[place];
  const Decision& decision = plan.values[place];
  if (!counts(w.value)) return;
  const uint64_t whole = aligned(graph_.value(w.value).bytes()), held = held_bytes(w.value, decision);
  const bool stays = decision.save && held == whole;
  // Saved for recomputation alone.
  if (w.readers.empty()) {
    if (decision.save && read[w.value])
      add(changes, w.forward_end + 1, backward_of_segment(place, plan) - 1, held);
    return;
  }
  if (stays) return add(changes, w.forward_end + 1, w.readers.back(), whole);
  add(changes, w.forward_end + 1, w.readers.front() - 1, held);
  for (OpId id : w.readers)
    if (graph_.op(id).stream == StreamId::kCompute) add(changes, id, id, whole);
}

PlanBounds BoundMaker::of(const DraftPlan& plan) const {
  std::vector<char> is_saved(graph_.values().size(), 0), read(graph_.values().size(), 0);
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const ValueId v = waiting_[i].value;
    is_saved[v] = plan.values[i].save ? 1 : 0;
    if (!plan.values[i].save && !saved_.only_begins_layer(v)) wanted.push_back(v);
  }
  PlanBounds bounds;
  bounds.seconds = step_seconds_ + recomputation(is_saved, std::move(wanted), false, &read);
  Changes changes = always_;
  for (std::size_t i = 0; i < waiting_.size(); ++i) add_waiting(i, plan, read, changes);
  int64_t now = 0, most = 0;
  for (int64_t change : changes) most = std::max(most, now += change);
  bounds.device = static_cast<uint64_t>(most);
  return bounds;
}

}  // namespace recollect
