#include "checkpointing/planner/plan_floor.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "checkpointing/planner/chain_costs.h"

namespace recollect {

namespace {

constexpr std::size_t kMostSets =
    14;  // ops of a layer whose outputs are saved or not; others save theirs for nothing

// Bytes that a layer saves, and seconds that it runs again.
struct Treatment {
  uint64_t bytes = 0;
  double seconds = 0;
};

// Those below which no mixture of others is, by rising bytes and falling seconds.
std::vector<Treatment> lower_hull(std::vector<Treatment> all) {
  std::sort(all.begin(), all.end(), [](const Treatment& a, const Treatment& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  std::vector<Treatment> hull;
  const auto is_above =
      [&](const Treatment& next) {  // the last one, the line from the one before it to the next
        const Treatment &a = hull[hull.size() - 2], &b = hull.back();
        return (a.seconds - b.seconds) * double(next.bytes - a.bytes) <=
               (a.seconds - next.seconds) * double(b.bytes - a.bytes);
      };
  for (const Treatment& next : all) {
    if (!hull.empty() && next.seconds >= hull.back().seconds) continue;
    while (hull.size() > 1 && is_above(next)) hull.pop_back();
    hull.push_back(next);
  }
  return hull;
}

// The ops of one layer's forward, in program order, and what of their outputs backward needs.
class LayerSets {
 public:
  LayerSets(const Graph& graph, const SavedActivations& saved, const BoundMaker& bounds, bool partition)
      : graph_(graph), saved_(saved), bounds_(bounds), partition_(partition) {}

  void add_op(OpId id) { places_[id] = ops_.size(), ops_.push_back({.id = id}); }
  void add_value(ValueId v) {
    if (saved_.only_begins_layer(v)) return;  // backward does not read it, and the layer behind has it
    Made& op = ops_.at(places_.at(graph_.value(v).producer));
    op.is_needed = true;
    op.values.insert(v);
    const bool whole = !partition_ || graph_.value(v).placement.is_sharded_over(kTensorAxis);
    if (bounds_.is_for_layers(v))
      op.bytes = add_bytes(op.bytes, bounds_.held_bytes(v, {.partition = !whole}));
  }

  // Layers of the same facts have the same hull.
  std::vector<uint64_t> facts() {
    note_readers();
    std::vector<uint64_t> all;
    for (const Made& op : ops_) {
      all.insert(all.end(), {std::bit_cast<uint64_t>(seconds_of(op.id)), op.is_needed ? 1u : 0u, op.bytes});
      for (const auto* list : {&op.readers, &op.others}) {
        all.push_back(list->size());
        all.insert(all.end(), list->begin(), list->end());
      }
    }
    return all;
  }

  // Behind facts().
  std::vector<Treatment> hull() {
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i].is_needed) (ops_[i].bytes > 0 ? sets_ : free).push_back(i);
    std::stable_sort(sets_.begin(), sets_.end(),
                     [&](std::size_t a, std::size_t b) { return ops_[a].bytes > ops_[b].bytes; });
    for (; sets_.size() > kMostSets; sets_.pop_back()) free.push_back(sets_.back());
    std::vector<char> is_saved(ops_.size(), 0);
    for (std::size_t i : free) is_saved[i] = 1;
    std::vector<Treatment> all;
    for (std::size_t choice = 0; choice < std::size_t{1} << sets_.size(); ++choice) {
      Treatment one;
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        is_saved[sets_[i]] = static_cast<char>(choice >> i & 1);
        if (is_saved[sets_[i]]) one.bytes = add_bytes(one.bytes, ops_[sets_[i]].bytes);
      }
      one.seconds = runs_again(is_saved);
      all.push_back(one);
    }
    return lower_hull(std::move(all));
  }

 private:
  struct Made {
    OpId id = kNone;
    bool is_needed = false;  // some of it by backward
    std::set<ValueId> values = {};
    uint64_t bytes = 0;  // of these
    // Ops of the layer that read what may be saved of it, and those that read something else.
    std::vector<std::size_t> readers = {}, others = {};
  };

  void note_readers() {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      for (ValueId v : graph_.op(ops_[i].id).inputs) {
        if (v == kNone) continue;
        const auto from = places_.find(graph_.value(v).producer);
        if (from == places_.end()) continue;
        Made& maker = ops_[from->second];
        (maker.values.contains(v) ? maker.readers : maker.others).push_back(i);
      }
  }

  double seconds_of(OpId id) const {
    return graph_.op(id).stream == StreamId::kCompute ? bounds_.op_seconds()[id] : 0;
  }

  double runs_again(const std::vector<char>& is_saved) {
    runs_.assign(ops_.size(), 0);
    const auto any = [&](const std::vector<std::size_t>& readers) {
      return std::any_of(readers.begin(), readers.end(), [&](std::size_t i) { return runs_[i] != 0; });
    };
    double seconds = 0;
    for (std::size_t i = ops_.size(); i-- > 0;) {
      const Made& op = ops_[i];
      runs_[i] = (!is_saved[i] && (op.is_needed || any(op.readers))) || any(op.others);
      if (runs_[i]) seconds += seconds_of(op.id);
    }
    return seconds;
  }

  const Graph& graph_;
  const SavedActivations& saved_;
  const BoundMaker& bounds_;
  bool partition_;
  std::vector<Made> ops_;
  std::map<OpId, std::size_t> places_;
  std::vector<std::size_t> sets_;
  std::vector<char> runs_;
};

}  // namespace

PlanFloor::PlanFloor(const Graph& graph, const SavedActivations& saved, const BoundMaker& bounds,
                     bool partition)
    : least_bytes_(bounds.behind_layers()), most_seconds_(bounds.step_seconds()) {
  std::vector<LayerSets> layers(saved.layer_inputs().size(), {graph, saved, bounds, partition});
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (bounds.can_run_again(op) && op.layer >= 0) layers.at(op.layer).add_op(id);
  }
  const std::set<ValueId> inputs(saved.layer_inputs().begin(), saved.layer_inputs().end());
  for (ValueId v : saved.values()) {
    if (const int layer = graph.value(v).layer; layer >= 0)
      layers.at(layer).add_value(v);
    else if (!inputs.contains(v) && bounds.is_for_layers(v))
      least_bytes_ = add_bytes(least_bytes_, bounds.held_bytes(v, {}));
  }
  std::map<std::vector<uint64_t>, std::vector<Treatment>> known;
  for (LayerSets& layer : layers) {
    const auto [place, is_new] = known.try_emplace(layer.facts());
    if (is_new) place->second = layer.hull();
    const std::vector<Treatment>& hull = place->second;
    least_bytes_ = add_bytes(least_bytes_, hull.front().bytes);
    most_seconds_ += hull.front().seconds;
    for (std::size_t i = 1; i < hull.size(); ++i)
      steps_.push_back({hull[i].bytes - hull[i - 1].bytes, hull[i - 1].seconds - hull[i].seconds});
  }
  std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return a.seconds * double(b.bytes) > b.seconds * double(a.bytes);
  });
}

std::optional<double> PlanFloor::seconds(uint64_t bytes) const {
  if (bytes < least_bytes_) return {};
  uint64_t left = bytes - least_bytes_;
  double seconds = most_seconds_;
  for (const Step& step : steps_) {
    const uint64_t taken = std::min(left, step.bytes);
    seconds -= step.seconds * (double(taken) / double(step.bytes));
    left -= taken;
    if (left == 0) break;
  }
  constexpr double kSumErrors = 1e-9;
  return seconds * (1 - kSumErrors);
}

}  // namespace recollect
