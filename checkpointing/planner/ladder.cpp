#include "checkpointing/planner/ladder.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "checkpointing/op_time.h"

namespace recollect {

namespace {

using Places = std::vector<int>;  // of values, among those of their layer

// One layer: what its backward needs, and what making it again takes.
class LayerCosts {
 public:
  LayerCosts(const Graph& graph, const std::vector<double>& op_seconds, std::vector<ValueId> values,
             const std::set<ValueId>& layer_inputs)
      : graph_(graph), op_seconds_(op_seconds), values_(std::move(values)), saved_(layer_inputs) {}

  const std::vector<ValueId>& values() const { return values_; }

  // Seconds of the ops that make again what is not saved, from what is.
  double recomputation() const {
    std::set<OpId> ops;
    std::vector<ValueId> wanted;
    for (ValueId v : values_)
      if (!saved_.contains(v)) wanted.push_back(v);
    double seconds = 0;
    while (!wanted.empty()) {
      const OpId id = graph_.value(wanted.back()).producer;
      wanted.pop_back();
      if (!ops.insert(id).second) continue;
      seconds += op_seconds_[id];
      for (ValueId in : graph_.op(id).inputs)
        if (is_missing(in)) wanted.push_back(in);
    }
    return seconds;
  }

  // Which values to save next, again and again until all are.
  std::vector<std::pair<Places, double>> steps() {
    std::vector<std::pair<Places, double>> made;
    for (double now = recomputation();;) {
      Places best;
      double best_left = now, best_ratio = -1;
      for (const Places& group : groups()) {
        const double left = with(group);
        const double ratio = (now - left) / static_cast<double>(std::max<uint64_t>(1, bytes(group)));
        if (ratio > best_ratio) best = group, best_left = left, best_ratio = ratio;
      }
      if (best.empty()) return made;
      for (int place : best) saved_.insert(values_[place]);
      made.emplace_back(best, now - best_left);
      now = best_left;
    }
  }

  uint64_t bytes(const Places& group) const {
    uint64_t sum = 0;
    for (int place : group) sum += aligned(graph_.value(values_[place]).bytes());
    return sum;
  }

 private:
  bool is_missing(ValueId v) const {
    if (v == kNone || saved_.contains(v)) return false;
    const Value& value = graph_.value(v);
    return !value.persistent && value.producer != kNone &&
           graph_.op(value.producer).phase == Phase::kForward && value.layer >= 0;
  }

  double with(const Places& group) {
    for (int place : group) saved_.insert(values_[place]);
    const double seconds = recomputation();
    for (int place : group) saved_.erase(values_[place]);
    return seconds;
  }

  // Each value, those of one op together, and pairs of these.
  std::vector<Places> groups() const {
    std::vector<Places> single;
    std::map<OpId, Places> by_op;
    for (int place = 0; place < static_cast<int>(values_.size()); ++place) {
      if (saved_.contains(values_[place])) continue;
      single.push_back({place});
      by_op[graph_.value(values_[place]).producer].push_back(place);
    }
    std::vector<Places> all = single, together;
    for (auto& [op, places] : by_op) together.push_back(places);
    for (std::size_t a = 0; a < together.size(); ++a) {
      if (together[a].size() > 1) all.push_back(together[a]);
      for (std::size_t b = a + 1; b < together.size(); ++b) {
        all.push_back(together[a]);
        all.back().insert(all.back().end(), together[b].begin(), together[b].end());
      }
    }
    return all;
  }

  const Graph& graph_;
  const std::vector<double>& op_seconds_;
  std::vector<ValueId> values_;
  std::set<ValueId> saved_;
};

// Layers with the same text have the same steps.
std::vector<std::string> texts_of_layers(const Graph& graph, const std::vector<double>& op_seconds,
                                         const std::vector<std::vector<ValueId>>& values) {
  std::vector<std::string> texts(values.size());
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::kForward && op.layer >= 0 && op.layer < static_cast<int>(texts.size()))
      texts[op.layer] +=
          behind_layer(op.name) + ' ' + op.def->name + ' ' + std::to_string(1e12 * op_seconds[id]) + '\n';
  }
  for (std::size_t layer = 0; layer < values.size(); ++layer)
    for (ValueId v : values[layer])
      texts[layer] += behind_layer(graph.value(v).name) + ' ' + std::to_string(graph.value(v).bytes()) + '\n';
  return texts;
}

}  // namespace

std::string behind_layer(const std::string& name) {
  const auto slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

std::vector<Rung> make_ladder(const Graph& graph, const SavedActivations& saved, const DeviceModel& device) {
  std::vector<double> op_seconds_of(graph.ops().size(), 0);
  for (OpId id : graph.op_ids())
    if (graph.op(id).phase == Phase::kForward) op_seconds_of[id] = op_seconds(graph, graph.op(id), device);
  const std::set<ValueId> inputs(saved.layer_inputs().begin(), saved.layer_inputs().end());
  std::vector<std::vector<ValueId>> values(inputs.size());
  for (ValueId v : saved.values()) {
    const int layer = graph.value(v).layer;
    if (layer >= 0 && !inputs.contains(v)) values.at(layer).push_back(v);
  }
  const std::vector<std::string> texts = texts_of_layers(graph, op_seconds_of, values);
  std::map<std::string, std::vector<std::pair<Places, double>>> known;
  struct Ranked {
    Rung rung;
    double ratio;
  };
  std::vector<Ranked> ranked;
  for (int layer = static_cast<int>(values.size()) - 1; layer >= 0; --layer) {
    LayerCosts costs(graph, op_seconds_of, values[layer], inputs);
    auto [steps, is_new] = known.try_emplace(texts[layer]);
    if (is_new) steps->second = costs.steps();
    double ratio = 0;
    for (const auto& [places, seconds] : steps->second) {
      Rung rung{.values = {}, .layer = layer, .seconds = seconds, .bytes = costs.bytes(places)};
      for (int place : places) rung.values.push_back(values[layer][place]);
      const double own = seconds / static_cast<double>(std::max<uint64_t>(1, rung.bytes));
      ratio = &places == &steps->second.front().first ? own : std::min(ratio, own);
      ranked.push_back({std::move(rung), ratio});
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.ratio > b.ratio; });
  std::vector<Rung> ladder;
  for (Ranked& one : ranked) ladder.push_back(std::move(one.rung));
  return ladder;
}

}  // namespace recollect
