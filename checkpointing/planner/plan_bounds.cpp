#include "checkpointing/planner/plan_bounds.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "checkpointing/batch_halves.h"
#include "checkpointing/binomial.h"
#include "checkpointing/choose.h"
#include "checkpointing/op_time.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

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
      device_(device),
      storage_(storage),
      op_seconds_(graph.ops().size(), 0),
      for_layers_(graph.values().size(), 0),
      always_(graph.ops().size() + 1, 0),
      backward_(saved.layer_inputs().size(), kNone),
      of_batch_(values_of_batch(graph)) {
  std::vector<char> may_leave(graph.values().size(), 0);
  for (ValueId v : saved.values()) may_leave[v] = 1;
  const LeastDurations least = least_durations(graph, may_leave, device);
  OpId last_of_layers = kNone;
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::kForward && op.layer >= 0) last_of_layers = id;
    const bool computes = op.stream == StreamId::kCompute, always = op.when == RunWhen::kAlways;
    const double runs = runs_of(op);
    if (always && (computes || op.phase == Phase::kForward)) op_seconds_[id] = runs * least.again[id];
    if (always && computes) step_seconds_ += runs * least.first[id];
    if (always && computes && op.phase == Phase::kForward) forward_seconds_ += runs * least.first[id];
    if (computes && !workspaces.empty()) add(always_, id, id, aligned(workspaces[id]));
    if (op.phase != Phase::kBackward || op.layer < 0) continue;
    if (backward_.at(op.layer) == kNone) backward_[op.layer] = id;
    for (ValueId v : op.inputs)
      if (v != kNone && graph.value(v).producer <= last_of_layers) for_layers_[v] = 1;
  }
  behind_ = last_of_layers + 1;
  note_values(last_of_layers);
  std::vector<char> counted(graph.values().size(), 0);
  for (ValueId v : graph.value_ids()) counted[v] = counts(v) && graph.value(v).part_of == kNone ? 1 : 0;
  if (storage.halves == 1)
    meter_ = std::make_unique<PlanMeter>(graph, saved, op_seconds_, counted, workspaces);
}

// In a micro-batch.
double BoundMaker::runs_of(const Op& op) const {
  return reads_any(op, of_batch_) ? static_cast<double>(storage_.halves) : 1;
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
    waiting_.back().layer = graph_.value(v).layer;
  }
  for (ValueId v : saved_.layer_inputs()) {
    input_places_.push_back(places.at(v));
    waiting_[places.at(v)].layer = static_cast<int>(input_places_.size()) - 1;
    waiting_[places.at(v)].begins = true;
  }
}

bool BoundMaker::can_run_again(const Op& op) const {
  return op.phase == Phase::kForward && std::none_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
           return v != kNone && graph_.value(v).accumulator;
         });
}

bool BoundMaker::is_missing(ValueId v, const std::vector<char>& is_saved, bool only_layers) const {
  if (v == kNone || is_saved[v]) return false;
  const Value& value = graph_.value(v);
  if (value.persistent || value.producer == kNone || (only_layers && value.layer < 0)) return false;
  return can_run_again(graph_.op(value.producer));
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

uint64_t BoundMaker::stored_bytes(ValueId v, const Decision& decision) const {
  const uint64_t bytes = graph_.value(v).bytes();
  return decision.partition ? bytes / static_cast<uint64_t>(storage_.tensor_size) : bytes;
}

uint64_t BoundMaker::held_bytes(ValueId v, const Decision& decision) const {
  return static_cast<uint64_t>(copies(v)) * held_by_one(v, decision);
}

uint64_t BoundMaker::held_by_one(ValueId v, const Decision& decision) const {
  if (!decision.save || decision.host || decision.disk || !counts(v)) return 0;
  return aligned(stored_bytes(v, decision));
}

// By layer: the last one that is recomputed together with it.
std::vector<int> BoundMaker::ends_of_segments(const DraftPlan& plan) const {
  std::vector<int> ends(input_places_.size());
  for (std::size_t layer = ends.size(); layer-- > 0;) {
    const bool last = layer + 1 == ends.size() || plan.values[input_places_[layer + 1]].save;
    ends[layer] = last ? static_cast<int>(layer) : ends[layer + 1];
  }
  return ends;
}

void BoundMaker::add_waiting(std::size_t place, const Decision& decision, const std::vector<int>& ends,
                             const std::vector<char>& read, Changes& changes) const {
  const Waiting& w = waiting_[place];
  if (!counts(w.value)) return;
  const uint64_t whole = aligned(graph_.value(w.value).bytes()), held = held_by_one(w.value, decision);
  const bool stays = decision.save && held == whole;
  // What the other half has of it, until this one's backward is done with it.
  const auto other = [&](OpId until, uint64_t bytes) {
    add(changes, std::max(w.forward_end + 1, behind_), until,
        static_cast<uint64_t>(copies(w.value) - 1) * bytes);
  };
  // Saved for recomputation alone.
  if (w.readers.empty()) {
    const OpId until = w.begins ? backward_[ends[w.layer]] : 0;
    if (!decision.save || !read[w.value]) return;
    add(changes, w.forward_end + 1, until - 1, held);
    return other(until - 1, held);
  }
  other(w.readers.front() - 1, held);
  if (stays) return add(changes, w.forward_end + 1, w.readers.back(), whole);
  add(changes, w.forward_end + 1, w.readers.front() - 1, held);
  for (OpId id : w.readers)
    if (graph_.op(id).stream == StreamId::kCompute) add(changes, id, id, whole);
}

// What leaves for sure, and the seconds of each link.
struct BoundMaker::Moved {
  uint64_t host = 0, disk = 0;
  double to_host = 0, from_host = 0, to_disk = 0, from_disk = 0, gathers = 0;
};

BoundMaker::Moved BoundMaker::moved(const DraftPlan& plan, const std::vector<int>& ends,
                                    const std::vector<char>& read) const {
  constexpr int kLayersFromHost = 2;  // that find in the buffer what was on its way to the disk
  using enum MemorySpace;
  Moved sum;
  if (plan.replay != Replay::kSegment) return sum;
  const auto most_stay = static_cast<int>(storage_.keep_last < 0 ? kMostLayers : storage_.keep_last);
  const bool timed = device_.measured.empty();
  const auto copy = [&](MemorySpace from, MemorySpace to, uint64_t bytes) {
    return timed ? device_.launch_overhead + copy_seconds(from, to, double(bytes), device_) : 0;
  };
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Waiting& w = waiting_[i];
    const Decision& d = plan.values[i];
    if (!d.save || !(d.partition || d.host || d.disk) || w.layer < 0) continue;
    const int before_end = static_cast<int>(ends.size()) - ends[w.layer];
    const bool reads_behind =
        std::any_of(w.readers.begin(), w.readers.end(), [&](OpId id) { return graph_.op(id).layer < 0; });
    if (before_end <= most_stay || reads_behind || (w.readers.empty() && !read[w.value])) continue;
    const uint64_t bytes = stored_bytes(w.value, d), all = static_cast<uint64_t>(copies(w.value));
    const auto times = static_cast<double>(all);
    if (d.host && !d.disk) sum.host += all * bytes;
    if (d.host) {
      sum.to_host += times * copy(kDevice, kHost, bytes);
      sum.from_host += times * copy(kHost, kDevice, bytes);
    }
    if (d.disk && (!d.host || before_end > most_stay + kLayersFromHost)) {
      sum.disk += all * block_bytes(bytes, kDisk);
      sum.to_disk += times * copy(kDevice, kDisk, bytes);
      sum.from_disk += times * copy(kDisk, kDevice, bytes);
    }
    if (d.partition && timed)
      sum.gathers += times * (device_.launch_overhead + device_.link_latency +
                              gather_seconds(double(bytes) * double(storage_.tensor_size - 1), device_));
  }
  return sum;
}

// Where a plan forgets: each layer's backward runs again what it needs itself, from the layer's input on; and that input, if
// it is not saved, nor held since backward was on its way to a layer behind, is made of one before it, through all layers
// between. Of the layers that need theirs no schedule passes fewer than the binomial one, and to pass a layer takes what
// makes the next one's input. What is held at a time is counted as more than it is.
double BoundMaker::forgotten(const DraftPlan& plan, const std::vector<char>& is_saved) const {
  const std::vector<ValueId>& inputs = saved_.layer_inputs();
  const std::size_t layers = inputs.size();
  int64_t held = 0;
  for (int place : input_places_) held += plan.values[place].save ? 1 : 0;
  if (plan.replay == Replay::kBisect) held += std::bit_width(layers) + 1;
  std::vector<char> there = is_saved;
  for (ValueId v : inputs) there[v] = 1;
  std::vector<std::vector<ValueId>> wanted(layers);
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    if (const ValueId v = waiting_[i].value; !there[v] && graph_.value(v).layer >= 0)
      wanted[graph_.value(v).layer].push_back(v);
  double own = 0, pass = std::numeric_limits<double>::infinity();
  int64_t needing = 0;
  std::vector<char> read(graph_.values().size(), 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    read[inputs[layer]] = saved_.only_begins_layer(inputs[layer]) ? 0 : 1;
    own += recomputation(there, std::move(wanted[layer]), true, &read);
    if (layer + 1 == layers) break;
    const OpId last = graph_.value(inputs[layer + 1]).producer;
    std::vector<char> passed(graph_.values().size(), 0);
    const double rest = recomputation(there, graph_.op(last).inputs, true, &passed);
    held += passed[inputs[layer]] ? 0 : 1;  // what is saved within the layer does for its input
    if (!read[inputs[layer]]) continue;
    ++needing;
    pass = std::min(pass, rest + (graph_.op(last).stream == StreamId::kCompute ? op_seconds_[last] : 0));
  }
  if (needing == 0 || held == 0) return own;
  const int64_t passes = binomial_evaluations(needing, held) - needing - (needing - 1);
  return own + static_cast<double>(std::max<int64_t>(0, passes)) * pass;
}

std::optional<PlanBounds> BoundMaker::metered(const DraftPlan& plan) const {
  if (!meter_ || plan.lets_any_wait()) return {};
  const std::optional<PlanMeter::Reading> reading = meter_->read(plan);
  if (!reading) return {};
  return PlanBounds{.seconds = step_seconds_ + reading->again, .device = reading->device};
}

std::optional<PlanBounds> BoundMaker::closer(const DraftPlan& plan) const {
  return meter_ && meter_->is_bound() ? metered(plan) : std::nullopt;
}

PlanBounds BoundMaker::of(const DraftPlan& plan) const {
  std::vector<char> is_saved(graph_.values().size(), 0), read(graph_.values().size(), 0);
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const ValueId v = waiting_[i].value;
    is_saved[v] = plan.values[i].save ? 1 : 0;
    if (!plan.values[i].save && !saved_.only_begins_layer(v)) wanted.push_back(v);
  }
  double again = recomputation(is_saved, std::move(wanted), false, &read);
  if (plan.replay != Replay::kSegment) again = std::max(again, forgotten(plan, is_saved));
  const std::vector<int> ends = ends_of_segments(plan);
  const Moved out = moved(plan, ends, read);
  PlanBounds bounds{.host = out.host, .disk = out.disk};
  bounds.seconds =
      std::max({forward_seconds_, out.to_host, out.to_disk}) +
      std::max({step_seconds_ - forward_seconds_ + again, out.from_host, out.from_disk, out.gathers});
  Changes changes = always_;
  for (std::size_t i = 0; i < waiting_.size(); ++i) add_waiting(i, plan.values[i], ends, read, changes);
  int64_t now = 0, most = 0;
  for (int64_t change : changes) most = std::max(most, now += change);
  bounds.device = static_cast<uint64_t>(most);
  return bounds;
}

}  // namespace recollect
