#include "checkpointing/planner/candidates.h"

#include <algorithm>
#include <array>
#include <set>

#include "checkpointing/planner/dtr.h"
#include "checkpointing/planner/ladder.h"
#include "checkpointing/policies.h"

namespace recollect {

namespace {

constexpr std::size_t kPoints = 64, kPointsElsewhere = 32, kPointsWithin = 8, kRaises = 8, kRaisesOfFull = 64,
                      kRaisesElsewhere = 128;
constexpr uint64_t kEvictionSteps = 6;
constexpr int64_t kMostHeld = 12, kMostK = 16;
constexpr std::array kGroups = {"attention", "mlp", "norm", "activation", "dropout"};  // of mode selective

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
  Lister(const Surroundings& of, const BoundMaker& bounds, const std::vector<Rung>& ladder)
      : of_(of), bounds_(bounds) {
    std::size_t place = 0;
    std::vector<int> places(of.graph.values().size(), -1);
    for (ValueId v : of.saved.values()) places[v] = static_cast<int>(place++);
    for (const Rung& rung : ladder) {
      rungs_.emplace_back();
      for (ValueId v : rung.values) rungs_.back().push_back(places[v]);
    }
  }

  // Twice: with what is at work in a layer, which may be too much, and without, which may be too little.
  void add_solved(const LayerOptions& layers, std::size_t points) {
    for (const Chain& chain : {layers.chain(), without_work(layers.chain())})
      add_frontier(layers, chain, ChainBudgets::kAny, ChainBudgets::kAny, points);
  }
  void add_frontier(const LayerOptions& layers, const Chain& chain, uint64_t host, uint64_t disk,
                    std::size_t points) {
    for (const ChainPlan& choice : frontier(chain, host, disk, points)) add(layers.plan_of(choice.options));
  }

  void add_named(const Residences& in) {
    using enum CheckpointingMode;
    const bool elsewhere = in.partition || in.host || in.disk;
    const auto plan_of = [&](const CheckpointingSettings& settings) {
      return make_draft(of_.graph, of_.saved, settings);
    };
    const auto layers = static_cast<int64_t>(of_.saved.layer_inputs().size());
    const DraftPlan all = plan_of(named(kNone, in, of_.settings));
    const auto add = [&](const DraftPlan& plan, std::size_t steps) {
      add_raised(plan, all, elsewhere ? 1 : steps);
    };
    add(all, 1);
    for (const std::vector<std::string>& groups : groups_to_recompute()) {
      CheckpointingSettings selective = named(kSelective, in, of_.settings);
      selective.recompute = groups;
      add(plan_of(selective), 1);
    }
    add(plan_of(named(kFull, in, of_.settings)), kRaisesOfFull);
    const std::set<int64_t> raised_ks = {2, 3, 4, 6, 9, 13};
    for (int64_t k : segment_lengths(layers))
      add(plan_of(named(kEveryK, in, of_.settings, k)), k == 1                  ? kRaisesOfFull
                                                        : raised_ks.contains(k) ? kRaises
                                                                                : 1);
    for (const CheckpointingMode mode : {kSqrt, kRecursive, kConstantMemory})
      add(plan_of(named(mode, in, of_.settings)), kRaises);
    if (elsewhere) return add_raised(plan_of(named(kFull, in, of_.settings)), all, kRaisesElsewhere);
    for (int64_t held = 2; held <= std::min(layers - 2, kMostHeld); ++held)
      add(make_binomial_draft(of_.graph, of_.saved, held, {}), kRaises);
  }

  void add_evicted(const std::vector<Plan>& plans, const Residences& in) {
    const CheckpointingSettings settings = named(CheckpointingMode::kDtr, in, of_.settings);
    for (const Plan& plan : plans)
      add(draft_of(placed(plan, of_.graph, of_.saved, settings), of_.graph, of_.saved));
  }

  std::vector<Candidate> finish() { return std::move(listed_); }

 private:
  // Layers of a segment, for mode every_k.
  std::set<int64_t> segment_lengths(int64_t layers) const {
    std::set<int64_t> all;
    for (int64_t k = 1; k <= std::min(layers - 1, kMostK); ++k) all.insert(k);
    for (int64_t k = kMostK * 3 / 2; k < layers; k = k * 3 / 2) all.insert(k);
    if (of_.settings.k > 0 && of_.settings.k < layers) all.insert(of_.settings.k);
    return all;
  }

  // Nothing stands for those that cost little.
  std::set<std::vector<std::string>> groups_to_recompute() const {
    std::set<std::vector<std::string>> all{{}, of_.settings.recompute};
    for (const char* group : kGroups) all.insert({group});
    return all;
  }

  void add(DraftPlan plan) {
    const PlanBounds bounds = bounds_.of(plan);
    listed_.push_back({std::move(plan), bounds});
  }

  // `plan`, and with what the first rungs of the ladder hold decided as in `as`.
  void add_raised(DraftPlan plan, const DraftPlan& as, std::size_t steps) {
    add(plan);
    std::size_t done = 0;
    for (std::size_t step = 1; step < steps; ++step) {
      const std::size_t until = step * rungs_.size() / steps;
      if (until == done) continue;
      for (; done < until; ++done)
        for (int place : rungs_[done]) plan.values[place] = as.values[place];
      add(plan);
    }
  }

  const Surroundings& of_;
  const BoundMaker& bounds_;
  std::vector<std::vector<int>> rungs_;  // places of what each saves
  std::vector<Candidate> listed_;
};

}  // namespace

DraftPlan save_everything(const Surroundings& of) {
  return make_draft(of.graph, of.saved, named(CheckpointingMode::kNone, {}, of.settings));
}

std::vector<Candidate> list_candidates(const Surroundings& of, const BoundMaker& bounds, uint64_t host,
                                       uint64_t disk) {
  const std::vector<Rung> ladder = make_ladder(of.graph, of.saved, of.device);
  Lister lister(of, bounds, ladder);
  constexpr uint64_t kAny = ChainBudgets::kAny;
  const Residences& r = of.residences;
  // Where the meter can read plans, dynamic programming over the layers replaces the solver (layer_front.h).
  if (!bounds.metered(save_everything(of)))
    lister.add_solved(LayerOptions(of.graph, of.saved, of.device, {}, bounds, ladder), kPoints);
  if (r.partition || r.host || r.disk) {
    const LayerOptions layers(of.graph, of.saved, of.device, r, bounds, ladder);
    lister.add_solved(layers, kPointsElsewhere);
    // What is on its way there takes bytes too: all that is allowed, and half of it.
    if (is_limited(layers.chain(), &ChainOption::host, host) ||
        is_limited(layers.chain(), &ChainOption::disk, disk))
      for (const uint64_t part : {2, 1})
        lister.add_frontier(layers, layers.chain(), host == kAny ? kAny : host / part,
                            disk == kAny ? kAny : disk / part, kPointsWithin);
  }
  const std::vector<Plan> evicted = dtr_plans(of.graph, of.saved, of.device, kEvictionSteps);
  for (const Residences& in : combinations(r)) {
    lister.add_named(in);
    lister.add_evicted(evicted, in);
  }
  return lister.finish();
}

}  // namespace recollect
