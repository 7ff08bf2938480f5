#include "checkpointing/planner/plan_meter.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "checkpointing/binomial.h"

namespace recollect {

namespace {

constexpr std::size_t kMostSteps = 1 << 18;  // more is no plan to train by

}  // namespace

PlanMeter::PlanMeter(const Graph& graph, const SavedActivations& saved, const std::vector<double>& again,
                     const std::vector<char>& counts, const std::vector<uint64_t>& workspaces)
    : analysis_(saved),
      bytes_(graph.values().size(), 0),
      can_be_made_(graph.values().size(), 0),
      one_stream_(graph.values().size(), 1),
      producers_(graph.values().size(), kNone) {
  for (ValueId v : graph.value_ids()) {
    const Value& value = graph.value(v);
    if (counts[v]) bytes_[v] = aligned(value.bytes());
    has_gathers_ |= saved.is_gathered(v);
    if (value.producer == kNone || graph.op(value.producer).phase == Phase::kOptimizer) continue;
    producers_[v] = value.producer;
    const Op& op = graph.op(value.producer);
    const bool adds = std::any_of(op.outputs.begin(), op.outputs.end(),
                                  [&](ValueId out) { return out != kNone && graph.value(out).accumulator; });
    can_be_made_[v] = op.phase == Phase::kForward && !adds && !value.persistent;
  }
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::kOptimizer || op.stream == StreamId::kCompute) continue;
    is_bound_ = false;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId v : *list)
        if (v != kNone) one_stream_[v] = 0;
  }
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::kOptimizer) break;
    if (op.phase == Phase::kForward) forward_ = id + 1;
    const bool computes = op.stream == StreamId::kCompute;
    ops_.push_back(metered(graph, id, computes ? again[id] : 0,
                           computes && !workspaces.empty() ? aligned(workspaces[id]) : 0));
  }
  for (ValueId v : graph.value_ids()) {
    at_first_.push_back(can_be_made_[v] ? -1 : v);
    at_rest_.push_back({.bytes = bytes_[v]});
    of_forward_.push_back(producers_[v] < forward_ ? 1 : 0);
  }
  note_forward();
  note_layers(graph);
}

PlanMeter::MeteredOp PlanMeter::metered(const Graph& graph, OpId id, double again, uint64_t workspace) {
  const Op& op = graph.op(id);
  MeteredOp made{.layer = op.layer, .workspace = workspace, .again = again};
  const auto matters = [&](ValueId v) { return v != kNone && (bytes_[v] > 0 || can_be_made_[v]); };
  const auto add = [&](const std::vector<ValueId>& list) {
    std::vector<int> places;
    for (ValueId v : list) {
      places.push_back(static_cast<int>(operands_.size()) - made.inputs);
      if (matters(v)) operands_.push_back(v);
    }
    return places;
  };
  made.inputs = static_cast<int>(operands_.size());
  const std::vector<int> inputs = add(op.inputs);
  made.outputs = static_cast<int>(operands_.size());
  const std::vector<int> outputs = add(op.outputs);
  made.end = static_cast<int>(operands_.size());
  for (const auto& [o, i] : op.def->in_place) {
    if (op.stream != StreamId::kCompute || o >= static_cast<int>(op.outputs.size()) ||
        i >= static_cast<int>(op.inputs.size()))
      continue;
    const ValueId out = op.outputs[o], in = op.inputs[i];
    if (matters(out) && matters(in) && bytes_[in] > 0 && bytes_[in] == bytes_[out] && one_stream_[in] &&
        one_stream_[out] && std::count(op.inputs.begin(), op.inputs.end(), in) == 1)
      made.in_place.emplace_back(outputs[o], inputs[i]);
  }
  return made;
}

void PlanMeter::note_forward() {
  forward_end_.assign(bytes_.size(), kNone);
  handings_.resize(forward_);
  std::vector<int64_t> changes(static_cast<std::size_t>(forward_) + 1, 0);
  std::vector<OpId> begin(bytes_.size(), kNone);
  for (OpId id = 0; id < forward_; ++id)
    for (int i = ops_[id].inputs; i < ops_[id].end; ++i) {
      const ValueId v = operands_[i];
      if (begin[v] == kNone) begin[v] = id;
      forward_end_[v] = id;
    }
  for (std::size_t v = 0; v < bytes_.size(); ++v)
    if (begin[v] != kNone) {
      changes[begin[v]] += static_cast<int64_t>(bytes_[v]);
      changes[forward_end_[v] + 1] -= static_cast<int64_t>(bytes_[v]);
    }
  int64_t now = 0;
  for (OpId id = 0; id < forward_; ++id) {
    forward_bytes_.push_back(static_cast<uint64_t>(now += changes[id]) + ops_[id].workspace);
    for (const auto& [out, in] : ops_[id].in_place)
      if (const ValueId dies = operands_[ops_[id].inputs + in]; forward_end_[dies] == id)
        handings_[id].emplace_back(operands_[ops_[id].inputs + out], dies);
  }
}

void PlanMeter::begin(const DraftPlan& plan) {
  replay_ = plan.replay;
  is_at_rest_ = false;
  of_forward_ops_ = forward_;
  there_ = at_first_;
  stored_ = at_rest_;
  made_.clear(), steps_.clear(), waiting_.clear();
  item_count_ = 0;
  for (std::size_t i = 0; i < plan.values.size(); ++i)
    if (const ValueId v = analysis_.values()[i]; plan.values[i].save) there_[v] = v;
  const std::vector<ValueId>& inputs = analysis_.layer_inputs();
  inputs_at_a_time_ = 0;
  for (std::size_t layer = 0; layer + 1 < inputs.size(); ++layer)
    inputs_at_a_time_ += there_[inputs[layer]] >= 0 ? 1 : 0;
  if (replay_ != Replay::kSegment) held_.assign(bytes_.size(), 0);
  layer_ = -2;
  again_ = 0;
}

// As the pass does when backward comes to another layer (recompute.cpp).
void PlanMeter::enter(int layer) {
  layer_ = layer;
  if (replay_ == Replay::kSegment) return;
  std::erase_if(made_, [&](ValueId v) {
    if (held_[v] && layer >= 0) return false;
    there_[v] = -1;
    return true;
  });
  if (replay_ == Replay::kNothing || layer < 0) return;
  const std::vector<ValueId>& inputs = analysis_.layer_inputs();
  int low = layer;
  while (low > 0 && there_[inputs[low]] < 0) --low;
  int64_t free = inputs_at_a_time_;
  for (int at = 0; at <= low; ++at) free -= there_[inputs[at]] >= 0 ? 1 : 0;
  std::fill(held_.begin(), held_.end(), 0);
  for (ValueId v : made_) held_[v] = 1;
  for (const int end = layer + 1; end - low > 1; --free) {
    if (replay_ == Replay::kBinomial && free <= 0) break;
    low += replay_ == Replay::kBinomial ? static_cast<int>(binomial_split(end - low, free + 1))
                                        : (end - low) / 2;
    held_[inputs[low]] = 1;
  }
}

void PlanMeter::make(ValueId v) {
  to_make_.assign(1, producers_[v]);
  while (!to_make_.empty() && steps_.size() < kMostSteps) {
    const MeteredOp& op = ops_[to_make_.back()];
    const ValueId* input = operands_.data() + op.inputs;
    const ValueId* const end = operands_.data() + op.outputs;
    while (input != end && there_[*input] >= 0) ++input;
    if (input != end) {
      to_make_.push_back(producers_[*input]);
      continue;
    }
    run_again(to_make_.back());
    to_make_.pop_back();
  }
}

// A step, and room for its items.
inline void PlanMeter::add_step(OpId id) {
  steps_.push_back({id, static_cast<int>(item_count_)});
  const auto most = item_count_ + static_cast<std::size_t>(ops_[id].end - ops_[id].inputs);
  if (most > items_.size()) items_.resize(2 * most);
}

inline void PlanMeter::add_item(Item item) {
  items_[item_count_++] = item;
  Stored& stored = stored_[item];
  if (stored.last < 0 && item < values() && of_forward_[item]) waiting_.push_back(item);
  stored.last = static_cast<int>(steps_.size()) - 1;
}

void PlanMeter::run_again(OpId id) {
  const MeteredOp& op = ops_[id];
  add_step(id);
  again_ += op.again;
  for (int i = op.inputs; i < op.outputs; ++i) add_item(there_[operands_[i]]);
  for (int o = op.outputs; o < op.end; ++o) {
    const ValueId v = operands_[o];
    const auto clone = static_cast<Item>(stored_.size());
    stored_.push_back({.bytes = bytes_[v]});
    add_item(clone);
    if (there_[v] == v) continue;  // saved: its clone was made beside another's
    if (there_[v] < 0) made_.push_back(v);
    there_[v] = clone;
  }
}

void PlanMeter::run_backward(OpId id) {
  const MeteredOp& op = ops_[id];
  for (int i = op.inputs; i < op.outputs; ++i)
    if (there_[operands_[i]] < 0) make(operands_[i]);
  add_step(id);
  for (int i = op.inputs; i < op.outputs; ++i) add_item(there_[operands_[i]]);
  for (int o = op.outputs; o < op.end; ++o) add_item(operands_[o]);
}

std::optional<PlanMeter::Reading> PlanMeter::read(const DraftPlan& plan) {
  if (has_gathers_) return {};
  begin(plan);
  for (OpId id = forward_; id < static_cast<OpId>(ops_.size()); ++id) {
    if (ops_[id].layer != layer_) enter(ops_[id].layer);
    run_backward(id);
    if (steps_.size() >= kMostSteps) return {};
  }
  return Reading{.again = again_, .device = peak()};
}

// What waits for backward is there from forward's last op that touches it on.
uint64_t PlanMeter::peak_of_forward() {
  more_.assign(static_cast<std::size_t>(forward_) + 1, 0);
  for (ValueId v : waiting_) more_[forward_end_[v] + 1] += bytes_[v];
  uint64_t now = 0, most = 0;
  for (OpId id = 0; id < forward_; ++id) {
    uint64_t here = forward_bytes_[id] + (now += more_[id]);
    ValueId out = kNone, in = kNone;
    for (const Handing& one : handings_[id])
      if (one.first != out && one.second != in && stored_[one.second].last < 0) {
        std::tie(out, in) = one;
        here -= bytes_[in];
      }
    most = std::max(most, here);
  }
  return most;
}

// Bytes of inputs that die at a step of backward and whose storage its outputs take over.
uint64_t PlanMeter::handed_over(const Step& step, int number) {
  uint64_t sum = 0;
  taken_.clear();
  for (const auto& [o, i] : ops_[step.op].in_place) {
    const Item out = items_[step.begin + o], in = items_[step.begin + i];
    if (stored_[in].last != number || std::find(taken_.begin(), taken_.end(), in) != taken_.end() ||
        std::find(taken_.begin(), taken_.end(), out) != taken_.end())
      continue;
    taken_.push_back(in);
    taken_.push_back(out);
    sum += stored_[in].bytes;
  }
  return sum;
}

// `now`: bytes that are in use before the first step.
std::array<uint64_t, 3> PlanMeter::most_around(int first, int second, uint64_t now) {
  const int count = static_cast<int>(steps_.size());
  steps_.push_back({kNone, static_cast<int>(item_count_)});
  std::array<uint64_t, 3> peaks{};
  for (int number = 0; number < count; ++number) {
    const MeteredOp& op = ops_[steps_[number].op];
    const int end = steps_[number + 1].begin;
    for (int o = end - (op.end - op.outputs); o < end; ++o) now += stored_[items_[o]].bytes;
    const uint64_t passed = op.in_place.empty() ? 0 : handed_over(steps_[number], number);
    uint64_t& peak = peaks[(number >= first ? 1 : 0) + (number >= second ? 1 : 0)];
    peak = std::max(peak, now - passed + op.workspace);
    for (int i = steps_[number].begin; i < end; ++i)
      if (Stored& item = stored_[items_[i]]; item.last == number) {
        item.last = count;  // each once
        now -= item.bytes;
      }
  }
  return peaks;
}

uint64_t PlanMeter::peak() {
  uint64_t now = 0;
  for (ValueId v : waiting_) now += bytes_[v];
  return std::max(peak_of_forward(), most_around(0, 0, now)[2]);
}

void PlanMeter::note_layers(const Graph& graph) {
  backward_.resize(analysis_.layer_inputs().size());
  layers_of_.assign(bytes_.size(), -1);
  for (ValueId v : graph.value_ids()) layers_of_[v] = graph.value(v).layer;
  OpId last_of_layers = kNone;
  for (OpId id = forward_; id < static_cast<OpId>(ops_.size()); ++id)
    if (const int layer = ops_[id].layer; layer >= 0) {
      backward_.at(layer).push_back(id);
      last_of_layers = id;
    }
  std::vector<char> counted(bytes_.size(), 0);
  for (OpId id = forward_; id < static_cast<OpId>(ops_.size()); ++id) {
    if (ops_[id].layer != 0 && id <= last_of_layers) continue;
    for (int i = ops_[id].inputs; i < ops_[id].outputs; ++i)
      if (const ValueId v = operands_[i]; of_forward_[v] && layers_of_[v] < 0 && !counted[v]++)
        outside_of_layers_ += bytes_[v];
  }
}

uint64_t PlanMeter::likeness(int layer) const {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](uint64_t part) { hash = (hash ^ part) * 1099511628211u; };
  const auto add_op = [&](const MeteredOp& op) {
    add(std::bit_cast<uint64_t>(op.again));
    add(op.workspace);
    for (int i = op.inputs; i < op.end; ++i) {
      add(bytes_[operands_[i]]);
      add(static_cast<uint64_t>(layers_of_[operands_[i]] == layer) + (i < op.outputs ? 2 : 0));
    }
  };
  for (OpId id = 0; id < forward_; ++id)
    if (ops_[id].layer == layer) add_op(ops_[id]);
  for (OpId id : backward_[layer]) add_op(ops_[id]);
  return hash;
}

PlanMeter::LayerReading PlanMeter::read_layer(const std::vector<ValueId>& saved, int layer, bool wanted,
                                              bool forgets) {
  if (!is_at_rest_) there_ = at_first_, stored_ = at_rest_;
  is_at_rest_ = true;
  replay_ = Replay::kSegment;
  made_.clear(), steps_.clear(), waiting_.clear();
  item_count_ = 0, of_forward_ops_ = 0;
  layer_ = layer;
  again_ = 0;
  const ValueId input = analysis_.layer_inputs()[layer];
  for (ValueId v : saved) there_[v] = v;
  there_[input] = input;
  const LayerReading reading = read_at_rest(layer, wanted, forgets);
  for (std::size_t i = 0; i < item_count_; ++i)
    if (items_[i] < values()) stored_[items_[i]] = at_rest_[items_[i]];
  stored_.resize(bytes_.size());
  for (ValueId v : made_) there_[v] = at_first_[v];
  for (ValueId v : saved) there_[v] = at_first_[v];
  there_[input] = at_first_[input];
  return reading;
}

PlanMeter::LayerReading PlanMeter::read_at_rest(int layer, bool wanted, bool forgets) {
  LayerReading reading;
  const std::vector<ValueId>& inputs = analysis_.layer_inputs();
  const ValueId input = inputs[layer];
  const ValueId output = inputs.at(std::min<std::size_t>(layer + 1, inputs.size() - 1));
  if (wanted && there_[output] < 0) make(output);
  reading.passes = stored_[input].last >= 0;
  reading.pass = again_;
  if (forgets)
    for (ValueId v : made_) there_[v] = at_first_[v];
  const int own = static_cast<int>(steps_.size());
  uint64_t now = 0;
  for (OpId id : backward_[layer]) {
    for (int i = ops_[id].inputs; i < ops_[id].outputs; ++i)
      if (const ValueId v = operands_[i]; !of_forward_[v] && stored_[v].last < 0) now += bytes_[v];
    run_backward(id);
  }
  reading.again = again_ - reading.pass;
  reading.reads = stored_[input].last >= own;
  for (ValueId v : waiting_) {
    if (layers_of_[v] < 0) {
      stored_[v].last = std::numeric_limits<int>::max();  // it outlives the layer, and is counted elsewhere
      continue;
    }
    now += bytes_[v];
    if (v != input) reading.held += bytes_[v];
  }
  if (wanted && there_[output] == output && stored_[output].last < 0) reading.held += bytes_[output];
  for (int number = 0; number < own; ++number) {
    const MeteredOp& op = ops_[steps_[number].op];
    for (int i = steps_[number].begin + op.outputs - op.inputs; i < steps_[number].begin + op.end - op.inputs;
         ++i)
      if (stored_[items_[i]].last >= own && items_[i] != there_[output])
        reading.passed += stored_[items_[i]].bytes;
  }
  const auto needs_input = [&](const Step& step) {
    const MeteredOp& op = ops_[step.op];
    const auto begin = items_.begin() + step.begin;
    return std::find(begin, begin + (op.outputs - op.inputs), input) != begin + (op.outputs - op.inputs);
  };
  const auto late = std::find_if(steps_.begin() + own, steps_.end(), needs_input);
  const std::array<uint64_t, 3> peaks = most_around(own, static_cast<int>(late - steps_.begin()), now);
  reading.on_the_way = peaks[0], reading.alone = peaks[1], reading.late = peaks[2];
  return reading;
}

}  // namespace recollect
