#include "checkpointing/planner/candidates.h"

#include <algorithm>

#include "checkpointing/planner/ladder.h"
#include "checkpointing/policies.h"

namespace recollect {

namespace {

constexpr std::size_t kPoints = 128, kPointsElsewhere = 32, kPointsWithin = 16, kRaises = 8,
                      kRaisesOfFull = 128;
constexpr int64_t kMostHeld = 12;

// The settings with which a named mode makes its plan in these residences.
CheckpointingSettings named(CheckpointingMode mode, const Residences& in,
                            const CheckpointingSettings& settings, int64_t k = 0) {
  CheckpointingSettings named{.mode = mode, .k = k};
  named.partition_activations = in.partition;
  named.cpu_checkpointing = in.host;
  if (in.disk) named.disk_checkpointing = settings.disk_checkpointing;
  return named;
}

std::vector<Residences> combinations(const Residences& allowed) {
  std::vector<Residences> all;
  for (int bits = 0; bits < 8; ++bits) {
    const Residences one{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    if (one.partition > allowed.partition || one.host > allowed.host || one.disk > allowed.disk) continue;
    all.push_back(one);
  }
  return all;
}

bool is_limited(const Chain& chain, uint64_t ChainOption::*where, uint64_t budget) {
  uint64_t most = 0;
  for (const ChainLayer& layer : chain.layers) {
    uint64_t of_layer = 0;
    for (const ChainOption& option : layer.options) of_layer = std::max(of_layer, option.*where);
    most += of_layer;
  }
  return most > budget;
}

Chain without_work(Chain chain) {
  for (ChainLayer& layer : chain.layers) {
    layer.forward_bytes = layer.backward_bytes = 0;
    for (ChainOption& option : layer.options) option.arrives = option.ahead = option.leaves = 0;
  }
  return chain;
}

class Lister {
 public:
  Lister(const Surroundings& of, const BoundMaker& bounds) : of_(of), bounds_(bounds) {
    std::size_t place = 0;
    std::vector<int> places(of.graph.values().size(), -1);
    for (ValueId v : of.saved.values()) places[v] = static_cast<int>(place++);
    for (const Rung& rung : make_ladder(of.graph, of.saved, of.device)) {
      rungs_.emplace_back();
      for (ValueId v : rung.values) rungs_.back().push_back(places[v]);
    }
  }

  // On the device.
  void add_solved(const LayerOptions& layers) {
    for (const auto& ladder : solved(layers, ChainBudgets::kAny, ChainBudgets::kAny, kPoints))
      listed_.plans.insert(listed_.plans.end(), ladder.begin(), ladder.end());
  }
  void add_solved_elsewhere(const LayerOptions& layers, uint64_t host, uint64_t disk, std::size_t points) {
    for (auto& ladder : solved(layers, host, disk, points)) listed_.ladders.push_back(std::move(ladder));
  }

  void add_named(const Residences& in) {
    const bool elsewhere = in.partition || in.host || in.disk;
    const auto draft = [&](const Plan& plan) { return draft_of(plan, of_.graph, of_.saved); };
    const auto plan_of = [&](CheckpointingMode mode, int64_t k = 0) {
      return draft(make_plan(of_.graph, of_.saved, named(mode, in, of_.settings, k)));
    };
    const auto layers = static_cast<int64_t>(of_.saved.layer_inputs().size());
    const DraftPlan all = plan_of(CheckpointingMode::kNone);
    const auto add = [&](const DraftPlan& plan, std::size_t steps) {
      for (Candidate& c : raised(plan, all, elsewhere ? 1 : steps)) listed_.plans.push_back(std::move(c));
    };
    add(all, 1);
    add(plan_of(CheckpointingMode::kSelective), 1);
    add(plan_of(CheckpointingMode::kFull), kRaisesOfFull);
    add(plan_of(CheckpointingMode::kEveryK, 1), kRaisesOfFull);
    for (int64_t k = 2; k < layers; k = k < 4 ? k + 1 : k * 3 / 2)
      add(plan_of(CheckpointingMode::kEveryK, k), kRaises);
    for (const CheckpointingMode mode :
         {CheckpointingMode::kSqrt, CheckpointingMode::kRecursive, CheckpointingMode::kConstantMemory})
      add(plan_of(mode), kRaises);
    if (elsewhere)
      return listed_.ladders.push_back(raised(plan_of(CheckpointingMode::kFull), all, kRaisesOfFull));
    for (int64_t held = 2; held <= std::min(layers - 2, kMostHeld); ++held)
      add(draft(make_binomial_plan(of_.graph, of_.saved, held, {})), kRaises);
  }

  Candidates finish() { return std::move(listed_); }

 private:
  Candidate bounded(DraftPlan plan) const {
    const PlanBounds bounds = bounds_.of(plan);
    return {std::move(plan), bounds};
  }

  // Twice: with what is at work in a layer, which may be too much, and without, which may be too little.
  std::vector<std::vector<Candidate>> solved(const LayerOptions& layers, uint64_t host, uint64_t disk,
                                             std::size_t points) const {
    std::vector<std::vector<Candidate>> ladders;
    for (const Chain& chain : {layers.chain(), without_work(layers.chain())}) {
      ladders.emplace_back();
      for (const ChainPlan& choice : frontier(chain, host, disk, points))
        ladders.back().push_back(bounded(layers.plan_of(choice.options)));
    }
    return ladders;
  }

  // `plan`, and with what the first rungs of the ladder hold decided as in `as`.
  std::vector<Candidate> raised(DraftPlan plan, const DraftPlan& as, std::size_t steps) const {
    std::vector<Candidate> all{bounded(plan)};
    std::size_t done = 0;
    for (std::size_t step = 1; step < steps; ++step) {
      const std::size_t until = step * rungs_.size() / steps;
      if (until == done) continue;
      for (; done < until; ++done)
        for (int place : rungs_[done]) plan.values[place] = as.values[place];
      all.push_back(bounded(plan));
    }
    return all;
  }

  const Surroundings& of_;
  const BoundMaker& bounds_;
  std::vector<std::vector<int>> rungs_;  // places of what each saves
  Candidates listed_;
};

}  // namespace

DraftPlan save_everything(const Surroundings& of) {
  return draft_of(make_plan(of.graph, of.saved, named(CheckpointingMode::kNone, {}, of.settings)), of.graph,
                  of.saved);
}

Candidates list_candidates(const Surroundings& of, const BoundMaker& bounds, uint64_t host, uint64_t disk) {
  Lister lister(of, bounds);
  constexpr uint64_t kAny = ChainBudgets::kAny;
  const Residences& r = of.residences;
  lister.add_solved(LayerOptions(of.graph, of.saved, of.device, {}, of.storage, bounds));
  if (r.partition || r.host || r.disk) {
    const LayerOptions layers(of.graph, of.saved, of.device, r, of.storage, bounds);
    lister.add_solved_elsewhere(layers, kAny, kAny, kPointsElsewhere);
    // What is on its way there takes bytes too: from all that is allowed down to half of it.
    if (is_limited(layers.chain(), &ChainOption::host, host) ||
        is_limited(layers.chain(), &ChainOption::disk, disk))
      for (uint64_t quarters = 2; quarters <= 4; ++quarters)
        lister.add_solved_elsewhere(layers, host == kAny ? kAny : host / 4 * quarters,
                                    disk == kAny ? kAny : disk / 4 * quarters, kPointsWithin);
  }
  for (const Residences& in : combinations(r)) lister.add_named(in);
  return lister.finish();
}

}  // namespace recollect
