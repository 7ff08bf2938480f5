#include "checkpointing/planner/climb.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checkpointing/planner/ladder.h"
#include "checkpointing/policies.h"

namespace recollect {

namespace {

constexpr double kLeastGain = 1e-6;  // of the seconds
constexpr std::size_t kPairs = 24, kMet = 8;

}  // namespace

PlanClimb::PlanClimb(const Surroundings& of, const BoundMaker& bounds) : of_(of), bounds_(bounds) {
  const std::vector<ValueId>& inputs = of.saved.layer_inputs();
  const std::set<ValueId> of_layers(inputs.begin(), inputs.end());
  const DraftPlan full = make_draft(of.graph, of.saved, {.mode = CheckpointingMode::kFull});
  std::map<std::string, std::map<int, std::vector<int>>> all, statistics;  // by name and layer
  for (std::size_t i = 0; i < full.values.size(); ++i) {
    const ValueId v = of.saved.values()[i];
    const Value& value = of.graph.value(v);
    const bool begins = of_layers.contains(v);
    if (begins && v != inputs.front()) inputs_.push_back(static_cast<int>(i));
    if (value.layer < 0 || (full.values[i].save && !begins)) continue;
    const std::string op = behind_layer(of.graph.op(value.producer).name);
    all[op][value.layer].push_back(static_cast<int>(i));
    if (of.saved.is_statistic(v)) statistics[op][value.layer].push_back(static_cast<int>(i));
  }
  for (const auto* map : {&all, &statistics})
    for (const auto& [name, layers] : *map) {
      if (map == &statistics && all[name] == layers) continue;
      Unit& unit = units_.emplace_back();
      for (const auto& [layer, places] : layers) unit.layers.push_back(places);
      for (int place : unit.layers.front())
        unit.bytes += aligned(of.graph.value(of.saved.values()[place]).bytes());
    }
}

std::vector<DraftPlan> PlanClimb::other_cuts() const {
  std::vector<DraftPlan> plans;
  if (inputs_.empty()) return plans;
  const uint64_t most = aligned(of_.graph.value(of_.saved.values()[inputs_.front()]).bytes());
  const DraftPlan full = make_draft(of_.graph, of_.saved, {.mode = CheckpointingMode::kFull});
  for (const Unit& unit : units_) {
    if (2 * unit.bytes < most || unit.bytes > 2 * most) continue;
    DraftPlan plan = full;
    for (int place : inputs_) plan.values[place].save = false;
    for (const auto& places : unit.layers)
      for (int place : places) plan.values[place].save = true;
    for (const Replay replay : {Replay::kSegment, Replay::kNothing}) {
      plan.replay = replay;
      plans.push_back(plan);
    }
  }
  return plans;
}

// Of each unit: in one layer, and in more, from both ends.
std::vector<PlanClimb::Move> PlanClimb::moves_of(const DraftPlan& plan) const {
  std::vector<Move> moves;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    std::size_t saved = 0;
    for (const auto& places : units_[u].layers)
      saved += std::all_of(places.begin(), places.end(), [&](int place) { return plan.values[place].save; });
    for (const bool save : {false, true}) {
      const std::size_t count = save ? units_[u].layers.size() - saved : saved;
      const std::set<std::size_t> some = {1, 2, count / 4, count / 2, count};
      for (const std::size_t layers : some)
        for (const bool from_last : {false, true})
          if (layers > 0 && layers <= count && (layers < count || from_last))
            moves.push_back({u, save, from_last, layers});
    }
  }
  return moves;
}

void PlanClimb::make(const Move& move, DraftPlan& plan) const {
  const auto& layers = units_[move.unit].layers;
  std::size_t left = move.layers;
  for (std::size_t n = 0; n < layers.size() && left > 0; ++n) {
    const std::vector<int>& places = layers[move.from_last ? layers.size() - 1 - n : n];
    const bool saved =
        std::all_of(places.begin(), places.end(), [&](int place) { return plan.values[place].save; });
    if (saved == move.save) continue;
    for (int place : places) plan.values[place].save = move.save;
    --left;
  }
}

// One climb.
struct PlanClimb::Way {
  const PlanClimb& climb;
  const uint64_t device;
  int64_t& work;
  Candidate now;
  std::vector<Candidate> met = {};

  bool fits(const PlanBounds& b) const { return b.device <= device; }
  // Over the budget bytes count first.
  bool is_better(const PlanBounds& a, const PlanBounds& b) const {
    if (!fits(a) || !fits(b)) return fits(a) != fits(b) ? fits(a) : a.device < b.device;
    if (a.seconds < b.seconds * (1 - kLeastGain)) return true;
    return a.seconds <= b.seconds && a.device < b.device;
  }

  std::optional<PlanBounds> measure(const DraftPlan& plan) {
    work -= climb.bounds_.ops();
    return climb.bounds_.metered(plan);
  }
  void go(DraftPlan plan, const PlanBounds& b) {
    now = {std::move(plan), b};
    if (!fits(b)) return;
    met.push_back(now);
    if (met.size() > kMet) met.erase(met.begin());
  }

  double room() const { return static_cast<double>(device) - static_cast<double>(now.bounds.device); }

  // What a move is worth: over the budget few seconds for its bytes, within it many.
  double worth(double seconds, double bytes) const {
    const double step = 0.02 * std::abs(room()) + 1;
    if (room() < 0) return std::min(-bytes, -room()) / (std::max(seconds, 0.0) + 1e-4 * now.bounds.seconds);
    return -seconds / (std::max(bytes, 0.0) + step);
  }

  bool step() {
    std::vector<Weighed> weighed;
    std::optional<std::pair<DraftPlan, PlanBounds>> best;
    double most = 0;
    const auto look_at = [&](DraftPlan plan, const Move* move) {
      const std::optional<PlanBounds> b = measure(plan);
      if (!b) return;
      const double seconds = b->seconds - now.bounds.seconds;
      const double bytes = static_cast<double>(b->device) - static_cast<double>(now.bounds.device);
      if (move) weighed.push_back({*move, seconds, bytes});
      if (!is_better(*b, now.bounds)) return;
      const double value = worth(seconds, bytes);
      if (best && value <= most) return;
      most = value;
      best.emplace(std::move(plan), *b);
    };
    for (const Move& move : climb.moves_of(now.plan)) {
      if (work <= 0) return false;
      DraftPlan plan = now.plan;
      climb.make(move, plan);
      look_at(std::move(plan), &move);
    }
    for (const Replay replay : {Replay::kSegment, Replay::kNothing, Replay::kBinomial, Replay::kBisect})
      if (replay != now.plan.replay) {
        DraftPlan plan = now.plan;
        plan.replay = replay;
        look_at(std::move(plan), nullptr);
      }
    if (!best && fits(now.bounds)) {
      for (const auto& [a, b] : pairs_of(weighed)) {
        if (work <= 0) return false;
        DraftPlan plan = now.plan;
        climb.make(*a, plan);
        climb.make(*b, plan);
        look_at(std::move(plan), nullptr);
      }
    }
    if (!best) return false;
    go(std::move(best->first), best->second);
    return true;
  }

  // One frees bytes that the other needs; those first that spare most, if each took what it takes alone.
  std::vector<std::pair<const Move*, const Move*>> pairs_of(const std::vector<Weighed>& weighed) const {
    std::vector<std::pair<double, std::pair<const Move*, const Move*>>> found;
    for (const Weighed& drop : weighed)
      for (const Weighed& add : weighed) {
        if (drop.move.save || !add.move.save || drop.move.unit == add.move.unit) continue;
        const double seconds = drop.seconds + add.seconds;
        const bool fits = drop.bytes + add.bytes <= room();
        // Where one op's values stand for another's, they do together what neither does alone.
        const bool instead = drop.move.layers == add.move.layers && drop.move.from_last == add.move.from_last;
        if ((fits && seconds < 0) || (instead && drop.move.layers <= 1))
          found.push_back({seconds, {&drop.move, &add.move}});
      }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (found.size() > kPairs) found.resize(kPairs);
    std::vector<std::pair<const Move*, const Move*>> pairs;
    for (const auto& one : found) pairs.push_back(one.second);
    return pairs;
  }
};

std::vector<Candidate> PlanClimb::from(const DraftPlan& plan, uint64_t device, int64_t& work) const {
  const std::optional<PlanBounds> bounds = bounds_.metered(plan);
  if (!bounds) return {};
  Way way{.climb = *this, .device = device, .work = work, .now = {plan, *bounds}};
  if (way.fits(*bounds)) way.met.push_back(way.now);
  while (way.step()) {
  }
  return std::move(way.met);
}

}  // namespace recollect
