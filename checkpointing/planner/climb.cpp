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

constexpr double kLeastSpared = 1e-6;  // of the seconds
constexpr std::size_t kPairs = 24, kMet = 4;
constexpr int kMisses = 4;

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
      unit.layers.resize(inputs.size());
      for (const auto& [layer, places] : layers) unit.layers.at(layer) = places;
      for (int place : layers.begin()->second)
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

bool PlanClimb::Unit::is_in(const DraftPlan& plan, std::size_t layer) const {
  return std::all_of(layers[layer].begin(), layers[layer].end(),
                     [&](int place) { return plan.values[place].save; });
}

bool PlanClimb::applies(const Move& move, const DraftPlan& plan, std::size_t layer) const {
  const auto can = [&](int unit, bool saved) {
    return unit < 0 || (!units_[unit].layers[layer].empty() && units_[unit].is_in(plan, layer) == saved);
  };
  return can(move.save, false) && can(move.drop, true);
}

// In one layer and in more.
void PlanClimb::add_moves(Move move, const DraftPlan& plan, std::vector<Move>& moves) const {
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < of_.saved.layer_inputs().size(); ++layer)
    count += applies(move, plan, layer);
  const auto add = [&](std::size_t layers, Where where) {
    if (layers == 0 || layers > count) return;
    move.layers = layers;
    move.where = where;
    moves.push_back(move);
  };
  add(count, Where::kLast);
  for (const std::size_t layers : std::set<std::size_t>{1, count / 3})
    if (layers < count)
      for (const Where where : {Where::kFirst, Where::kLast}) add(layers, where);
  if (count > 2)
    for (const std::size_t layers : std::set<std::size_t>{1, count / 4, count / 2})
      add(layers, Where::kSpread);
}

std::vector<PlanClimb::Move> PlanClimb::single_moves(const DraftPlan& plan) const {
  std::vector<Move> moves;
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit) {
    add_moves({.save = unit}, plan, moves);
    add_moves({.drop = unit}, plan, moves);
  }
  return moves;
}

std::vector<PlanClimb::Move> PlanClimb::exchanges(const DraftPlan& plan) const {
  std::vector<Move> moves;
  for (int save = 0; save < static_cast<int>(units_.size()); ++save)
    for (int drop = 0; drop < static_cast<int>(units_.size()); ++drop)
      if (save != drop) add_moves({.save = save, .drop = drop}, plan, moves);
  return moves;
}

void PlanClimb::make_in(std::size_t layer, const Move& move, DraftPlan& plan) const {
  if (move.drop >= 0)
    for (int place : units_[move.drop].layers[layer]) plan.values[place].save = false;
  if (move.save >= 0)
    for (int place : units_[move.save].layers[layer]) plan.values[place].save = true;
}

// In the middle of the most layers behind each other in which the move can be made.
std::size_t PlanClimb::layer_between(const Move& move, const DraftPlan& plan) const {
  std::size_t best = 0, most = 0, run = 0;
  for (std::size_t layer = 0; layer < of_.saved.layer_inputs().size(); ++layer) {
    run = applies(move, plan, layer) ? run + 1 : 0;
    if (run > most) most = run, best = layer - run / 2;
  }
  return best;
}

void PlanClimb::make(const Move& move, DraftPlan& plan) const {
  const std::size_t count = of_.saved.layer_inputs().size();
  std::size_t left = move.layers;
  if (move.where == Where::kSpread) {
    for (; left > 0; --left) make_in(layer_between(move, plan), move, plan);
    return;
  }
  for (std::size_t n = 0; n < count && left > 0; ++n) {
    const std::size_t layer = move.where == Where::kLast ? count - 1 - n : n;
    if (!applies(move, plan, layer)) continue;
    make_in(layer, move, plan);
    --left;
  }
}

std::vector<DraftPlan> PlanClimb::kicked(const DraftPlan& plan) const {
  std::vector<DraftPlan> plans;
  const std::size_t all = of_.saved.layer_inputs().size();
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
    for (const Move& move : {Move{.save = unit, .layers = all}, Move{.drop = unit, .layers = all}}) {
      plans.push_back(plan);
      make(move, plans.back());
      if (plans.back() == plan) plans.pop_back();
    }
  return plans;
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
    if (a.seconds < b.seconds * (1 - kLeastSpared)) return true;
    return a.seconds <= b.seconds && a.device < b.device;
  }

  std::optional<PlanBounds> measure(const DraftPlan& plan) {
    const std::optional<PlanBounds> taken = climb.bounds_.metered(plan);
    work -= climb.bounds_.metered_ops();
    return taken;
  }
  void go(DraftPlan plan, const PlanBounds& b) {
    now = {std::move(plan), b};
    if (!fits(b)) return;
    met.push_back(now);
    if (met.size() > kMet) met.erase(met.begin());
  }

  double room() const { return static_cast<double>(device) - static_cast<double>(now.bounds.device); }

  // The rank of a move: over the budget the fewest seconds for its bytes come first, within it the most.
  double worth(double seconds, double bytes) const {
    const double step = 0.02 * std::abs(room()) + 1;
    if (room() < 0) return std::min(-bytes, -room()) / (std::max(seconds, 0.0) + 1e-4 * now.bounds.seconds);
    return -seconds / (std::max(bytes, 0.0) + step);
  }

  // Where it leads to something better, or frees bytes as long as too many are needed.
  bool take(DraftPlan plan) {
    if (work <= 0) return false;
    const std::optional<PlanBounds> b = measure(plan);
    if (!b || !is_better(*b, now.bounds)) return false;
    go(std::move(plan), *b);
    return true;
  }
  bool take(const Move& move) {
    DraftPlan plan = now.plan;
    climb.make(move, plan);
    return take(std::move(plan));
  }

  bool step() {
    const std::vector<Weighed> weighed = weigh(climb.single_moves(now.plan));
    return take_best(weighed) || take_pairs(weighed) || take_replay() ||
           (fits(now.bounds) && take_best(weigh(climb.exchanges(now.plan))));
  }

  // Each from here.
  std::vector<Weighed> weigh(const std::vector<Move>& moves) {
    std::vector<Weighed> weighed;
    for (const Move& move : moves) {
      if (work <= 0) return {};
      DraftPlan plan = now.plan;
      climb.make(move, plan);
      const std::optional<PlanBounds> b = measure(plan);
      if (!b) continue;
      Weighed& one = weighed.emplace_back(Weighed{.move = move});
      one.seconds = b->seconds - now.bounds.seconds;
      one.bytes = static_cast<double>(b->device) - static_cast<double>(now.bounds.device);
      if (is_better(*b, now.bounds)) one.worth = worth(one.seconds, one.bytes);
    }
    return weighed;
  }

  // Those of most worth one after the other, as long as they help.
  bool take_best(const std::vector<Weighed>& weighed) {
    std::vector<const Weighed*> best;
    for (const Weighed& one : weighed)
      if (one.worth > 0) best.push_back(&one);
    std::stable_sort(best.begin(), best.end(),
                     [](const Weighed* a, const Weighed* b) { return a->worth > b->worth; });
    int taken = 0, missed = 0;
    for (const Weighed* one : best) {
      take(one->move) ? ++taken : ++missed;
      if (missed == kMisses) break;
    }
    return taken > 0;
  }

  bool take_pairs(const std::vector<Weighed>& weighed) {
    if (!fits(now.bounds)) return false;
    bool any = false;
    for (const auto& [a, b] : pairs_of(weighed)) {
      DraftPlan plan = now.plan;
      climb.make(*a, plan);
      climb.make(*b, plan);
      any |= take(std::move(plan));
    }
    return any;
  }

  bool take_replay() {
    for (const Replay replay : {Replay::kSegment, Replay::kNothing, Replay::kBinomial, Replay::kBisect}) {
      DraftPlan plan = now.plan;
      plan.replay = replay;
      if (replay != now.plan.replay && take(std::move(plan))) return true;
    }
    return false;
  }

  // One frees bytes that the other needs; those first that spare most, if each took what it takes alone.
  std::vector<std::pair<const Move*, const Move*>> pairs_of(const std::vector<Weighed>& weighed) const {
    std::vector<std::pair<double, std::pair<const Move*, const Move*>>> found;
    for (const Weighed& drop : weighed)
      for (const Weighed& add : weighed) {
        if (drop.move.drop < 0 || add.move.save < 0 || drop.move.drop == add.move.save) continue;
        const double seconds = drop.seconds + add.seconds;
        if (drop.bytes + add.bytes <= room() && seconds < 0)
          found.push_back({seconds, {&drop.move, &add.move}});
      }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
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
