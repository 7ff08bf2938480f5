#include "checkpointing/planner/layer_options.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "checkpointing/op_time.h"
#include "checkpointing/policies.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

constexpr std::size_t kMostPrefixes = 12, kMostElsewhere = 3;  // of a layer's rungs

// No worse than `b` in anything.
bool covers(const ChainOption& a, const ChainOption& b) {
  return a.held <= b.held && a.arrives <= b.arrives && a.leaves <= b.leaves && a.host <= b.host &&
         a.disk <= b.disk && a.seconds <= b.seconds && a.out <= b.out && a.in <= b.in;
}

// At most so many of 0, 1, ... `last`, both ends among them.
std::vector<std::size_t> spread(std::size_t last, std::size_t most) {
  std::vector<std::size_t> all;
  const std::size_t parts = std::min(last, most - 1);
  for (std::size_t i = 0; i <= parts; ++i) all.push_back(parts == 0 ? 0 : i * last / parts);
  return all;
}

std::vector<Decision> places_to_wait(const Residences& in, const DeviceModel& device) {
  std::vector<Decision> all;
  if (in.partition) all.push_back({.partition = true});
  if (in.host) all.push_back({.host = true});
  if (in.host && in.partition) all.push_back({.partition = true, .host = true});
  if (in.disk && device.disk_write_bandwidth > 0 && device.disk_read_bandwidth > 0)
    all.push_back({.disk = true});
  return all;
}

}  // namespace

struct LayerOptions::Maker {
  const Graph& graph;
  const SavedActivations& saved;
  const DeviceModel& device;
  const BoundMaker& bounds;
  const std::vector<char>& always;  // by value: saved in every plan

  uint64_t part_bytes(ValueId v, const Decision& d) const {
    return bounds.held_bytes(v, {.partition = d.partition});
  }
  // What a value does where others do `d`: of one that is divided already, each rank has its part.
  Decision decision_for(ValueId v, Decision d) const {
    d.partition = d.partition && !graph.value(v).placement.is_sharded_over(kTensorAxis);
    return d;
  }

  // A part may be more than the whole, by what a layout aligns it to.
  uint64_t bytes_to_gather(ValueId v, const Decision& d) const {
    const uint64_t whole = part_bytes(v, {}), part = part_bytes(v, d);
    return whole > part ? whole - part : 0;
  }

  double copying(MemorySpace from, MemorySpace to, uint64_t bytes) const {
    return device.launch_overhead + copy_seconds(from, to, static_cast<double>(bytes), device);
  }
  double seconds_out(ValueId v, const Decision& d) const {
    double seconds = 0;
    if (d.host) seconds += copying(MemorySpace::kDevice, MemorySpace::kHost, part_bytes(v, d));
    if (d.disk) seconds += copying(MemorySpace::kDevice, MemorySpace::kDisk, part_bytes(v, d));
    return seconds;
  }
  double seconds_in(ValueId v, const Decision& d) const {
    double seconds = 0;
    if (d.host) seconds += copying(MemorySpace::kHost, MemorySpace::kDevice, part_bytes(v, d));
    if (d.disk) seconds += copying(MemorySpace::kDisk, MemorySpace::kDevice, part_bytes(v, d));
    if (d.partition)
      seconds += device.launch_overhead + device.link_latency +
                 gather_seconds(static_cast<double>(bytes_to_gather(v, d)), device);
    return seconds;
  }

  // What of the saved values would wait there, the best first.
  std::vector<std::size_t> movable(const std::vector<ValueId>& values, const Decisions& at,
                                   const Decision& d) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Decision own = decision_for(values[i], d);
      if (at[i].save && !always[values[i]] && (own.partition || own.host || own.disk)) places.push_back(i);
    }
    const auto worth = [&](std::size_t i) {
      const ValueId v = values[i];
      const Decision own = decision_for(v, d);
      const uint64_t freed = own.host || own.disk ? part_bytes(v, {}) : bytes_to_gather(v, own);
      return static_cast<double>(freed) / (seconds_out(v, own) + seconds_in(v, own));
    };
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
    return places;
  }

  ChainOption option(const std::vector<ValueId>& values, const Decisions& at) const {
    ChainOption made;
    std::vector<char> is_saved = always, read(graph.values().size(), 0);
    std::vector<ValueId> wanted;
    for (std::size_t i = 0; i < values.size(); ++i) {
      is_saved[values[i]] |= at[i].save ? 1 : 0;
      if (is_saved[values[i]] || i == 0) continue;
      wanted.push_back(values[i]);
      made.arrives += aligned(graph.value(values[i]).bytes());
    }
    made.seconds = bounds.recomputation(is_saved, std::move(wanted), true, &read);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ValueId v = values[i];
      const Decision& d = at[i];
      if (always[v] || !d.save || (saved.only_begins_layer(v) && !read[v])) continue;
      made.held += bounds.held_bytes(v, d);
      if (!d.partition && !d.host && !d.disk) continue;
      const uint64_t part = part_bytes(v, d);
      made.arrives += aligned(graph.value(v).bytes()) + (d.partition && (d.host || d.disk) ? part : 0);
      if (d.host || d.disk) made.leaves += part;
      const auto copies = static_cast<uint64_t>(bounds.copies(v));
      (d.disk ? made.disk : made.host) += copies * (d.disk   ? block_bytes(part, MemorySpace::kDisk)
                                                    : d.host ? part
                                                             : 0);
      made.out += static_cast<double>(copies) * seconds_out(v, d);
      made.in += static_cast<double>(copies) * seconds_in(v, d);
    }
    return made;
  }

  std::vector<Decisions> candidates(const std::vector<ValueId>& values, const std::vector<const Rung*>& rungs,
                                    const std::vector<Decision>& elsewhere) const {
    const auto prefix = [&](std::size_t count) {
      Decisions at(values.size(), {.save = false});
      at[0].save = count < rungs.size() || !saved.only_begins_layer(values[0]);
      for (std::size_t i = 0; i < count; ++i)
        for (ValueId v : rungs[i]->values)
          at[std::find(values.begin(), values.end(), v) - values.begin()].save = true;
      return at;
    };
    std::vector<Decisions> all;
    for (std::size_t count : spread(rungs.size(), kMostPrefixes)) all.push_back(prefix(count));
    for (const Decision& d : elsewhere) {
      const auto let_wait = [&](Decisions at, const std::vector<std::size_t>& places, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) at[places[i]] = decision_for(values[places[i]], d);
        if (count > 0) all.push_back(std::move(at));
      };
      for (std::size_t count : spread(rungs.size(), kMostElsewhere)) {
        const Decisions here = prefix(count);
        const std::vector<std::size_t> places = movable(values, here, d);
        let_wait(here, places, places.size());
        if (places.size() > 1) let_wait(here, places, places.size() / 2);
      }
      for (std::size_t count : spread(rungs.size(), kMostPrefixes)) {
        const Decisions here = prefix(count);
        const std::vector<std::size_t> places = movable(values, here, d);
        if (std::find(places.begin(), places.end(), 0) != places.end()) let_wait(here, {0}, 1);
      }
    }
    return all;
  }

  // Seconds, and the most bytes of one op: of each layer, and of what runs in none, in `head`.
  void note_work(std::vector<ChainLayer>& layers, uint64_t& head) const {
    std::vector<ValueId> operands;
    for (OpId id : graph.op_ids()) {
      const Op& op = graph.op(id);
      if (op.phase == Phase::kOptimizer) continue;
      operands.assign(op.inputs.begin(), op.inputs.end());
      operands.insert(operands.end(), op.outputs.begin(), op.outputs.end());
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      uint64_t bytes = 0;
      for (ValueId v : operands)
        if (v != kNone && !persists(graph.value(v)) && !graph.value(v).accumulator)
          bytes += aligned(graph.value(v).bytes());
      const bool forward = op.phase == Phase::kForward;
      ChainLayer* layer = op.layer < 0 ? nullptr : &layers.at(op.layer);
      uint64_t& most = !layer ? head : forward ? layer->forward_bytes : layer->backward_bytes;
      most = std::max(most, bytes);
      if (layer && op.stream == StreamId::kCompute)
        (forward ? layer->forward : layer->backward) += bounds.op_seconds()[id];
    }
  }
};

LayerOptions::LayerOptions(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
                           const Residences& residences, const BoundMaker& bounds,
                           const std::vector<Rung>& ladder)
    : outside_(make_draft(graph, saved, {.mode = CheckpointingMode::kFull})) {
  const std::vector<ValueId>& inputs = saved.layer_inputs();
  const std::set<ValueId> of_layers(inputs.begin(), inputs.end());
  std::vector<std::vector<const Rung*>> rungs(inputs.size());
  for (const Rung& rung : ladder) rungs[rung.layer].push_back(&rung);
  // Beside the layers' inputs, full saves what is outside of layers or read there.
  std::vector<char> always(graph.values().size(), 0);
  uint64_t held_outside = 0;
  std::map<ValueId, int> places;
  for (ValueId v : saved.values()) {
    const auto place = static_cast<int>(places.size());
    places[v] = place;
    if (!outside_.values[place].save || of_layers.contains(v)) continue;
    always[v] = 1;
    held_outside += bounds.held_bytes(v, {});
  }

  for (ValueId v : inputs) values_.push_back({v});
  for (ValueId v : saved.values())
    if (const int layer = graph.value(v).layer; layer >= 0 && !of_layers.contains(v))
      values_.at(layer).push_back(v);
  for (const auto& values : values_) {
    places_.emplace_back();
    for (ValueId v : values) places_.back().push_back(places.at(v));
  }

  const Maker maker{graph, saved, device, bounds, always};
  const std::vector<Decision> elsewhere = places_to_wait(residences, device);
  std::map<std::string, int> known;
  chain_.layers.resize(inputs.size());
  maker.note_work(chain_.layers, chain_.head_bytes);
  chain_.head_bytes += held_outside;
  decisions_.resize(inputs.size());
  for (int layer = 0; layer < static_cast<int>(inputs.size()); ++layer) {
    ChainLayer& link = chain_.layers[layer];
    std::string text;
    for (ValueId v : values_[layer])
      text += (v == values_[layer].front() ? "" : behind_layer(graph.value(v).name)) + ' ' +
              std::to_string(graph.value(v).bytes()) + (always[v] ? " always" : "") +
              (saved.only_begins_layer(v) ? " begins" : "") +
              (graph.value(v).placement.is_sharded_over(kTensorAxis) ? " divided" : "") + '\n';
    for (const Rung* rung : rungs[layer]) text += std::to_string(1e12 * rung->seconds) + '\n';
    const auto [first, is_new] = known.try_emplace(text, layer);
    alike_.push_back(first->second);
    if (!is_new) {
      link.options = chain_.layers[first->second].options;
      continue;
    }
    std::vector<ChainOption>& options = link.options;
    for (Decisions& at : maker.candidates(values_[layer], rungs[layer], elsewhere)) {
      const ChainOption option = maker.option(values_[layer], at);
      if (std::any_of(options.begin(), options.end(), [&](const auto& o) { return covers(o, option); }))
        continue;
      for (std::size_t i = options.size(); i-- > 0;)
        if (covers(option, options[i])) {
          options.erase(options.begin() + static_cast<std::ptrdiff_t>(i));
          decisions_[layer].erase(decisions_[layer].begin() + static_cast<std::ptrdiff_t>(i));
        }
      options.push_back(option);
      decisions_[layer].push_back(std::move(at));
    }
  }
}

DraftPlan LayerOptions::plan_of(const std::vector<int>& options) const {
  require(options.size() == values_.size(), "an option for each layer");
  DraftPlan plan = outside_;
  for (std::size_t layer = 0; layer < values_.size(); ++layer) {
    const Decisions& at = decisions_[alike_[layer]].at(options[layer]);
    for (std::size_t i = 0; i < at.size(); ++i) {
      Decision& decision = plan.values[places_[layer][i]];
      if (i == 0 || !decision.save) decision = at[i];
    }
  }
  return plan;
}

}  // namespace recollect
