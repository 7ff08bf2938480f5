#include "checkpointing/planner/auto.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

namespace recollect {

namespace {

constexpr std::size_t kFurther = 3;
constexpr double kSumError = 1e-9;  // of seconds: more than two orders of adding them can differ by

class Search {
 public:
  Search(const Surroundings& of, const PlanBudgets& budgets, const TryPlan& try_plan)
      : of_(of), budgets_(budgets), try_plan_(try_plan) {}

  // Whether the plan fits; the best of those becomes the answer.
  bool fits(const DraftPlan& draft) {
    ++chosen_.tried;
    Plan plan = plan_of(draft, of_.graph, of_.saved);
    const std::optional<PlanTrial> trial = try_plan_(plan);
    if (!trial || trial->host > budgets_.host || trial->disk > budgets_.disk) return false;
    persistent_ = trial->persistent, optimizer_ = trial->optimizer;
    chosen_.smallest_device = std::min(chosen_.smallest_device, trial->device);
    if (trial->device > budgets_.device) {
      over_.push_back({trial->seconds, trial->device});
      return false;
    }
    const auto rank = [](const PlanTrial& t) { return std::tuple(t.seconds, t.device, t.host, t.disk); };
    if (chosen_.plan && rank(chosen_.takes) <= rank(*trial)) return true;
    chosen_.plan = std::move(plan);
    chosen_.takes = *trial;
    return true;
  }

  // Each candidate is tried that might be the answer. Those of the least seconds come first: they end the search.
  void look_through(const std::vector<Candidate>& candidates) {
    chosen_.known += static_cast<int64_t>(candidates.size());
    for (const Candidate* c :
         in_order(candidates, [](const PlanBounds& b) { return std::tuple(b.seconds, b.device); })) {
      const uint64_t device = device_of(*c);
      if (device > budgets_.device)
        over_.push_back({c->bounds.seconds + optimizer_, device});
      else if (!chosen_.plan || may_be_better(c->bounds.seconds + optimizer_, device))
        fits(c->plan);
    }
  }

  // The last one that fits, by halving, and what follows it: where values live at one time may let a later one need less.
  // What cannot be better than the answer so far is passed as if it fitted.
  void climb(const std::vector<Candidate>& ladder) {
    chosen_.known += static_cast<int64_t>(ladder.size());
    const auto goes_on = [&](const Candidate& c) {
      const uint64_t device = device_of(c);
      if (device > budgets_.device) return false;
      return (chosen_.plan && !may_be_better(c.bounds.seconds + optimizer_, device)) || fits(c.plan);
    };
    if (ladder.empty() || goes_on(ladder.back()) || !goes_on(ladder.front())) return;
    std::size_t low = 0, high = ladder.size() - 1;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (goes_on(ladder[middle]) ? low : high) = middle;
    }
    for (std::size_t next = high + 1; next < std::min(ladder.size(), high + kFurther); ++next)
      goes_on(ladder[next]);
  }

  // Where none fits: what the least one takes.
  void find_smallest(const Candidates& candidates) {
    for (const std::vector<Candidate>& ladder : candidates.ladders)
      if (!ladder.empty() && device_of(ladder.front()) < chosen_.smallest_device) fits(ladder.front().plan);
    for (const Candidate* c :
         in_order(candidates.plans, [](const PlanBounds& b) { return std::tuple(b.device, b.seconds); }))
      if (device_of(*c) < chosen_.smallest_device) fits(c->plan);
  }

  ChosenPlan finish() {
    for (const Over& over : over_)
      if (over.device > chosen_.takes.device)
        chosen_.price = std::max(chosen_.price, (chosen_.takes.seconds - over.seconds) /
                                                    static_cast<double>(over.device - chosen_.takes.device));
    return std::move(chosen_);
  }
  bool found() const { return chosen_.plan.has_value(); }
  void note_bound(const LayerOptions& layers) {
    if (budgets_.device < persistent_) return;
    const uint64_t left =
        budgets_.device == PlanBudgets::kAny ? budgets_.device : budgets_.device - persistent_;
    if (const auto solved = solve(layers.floor(), {left, budgets_.host, budgets_.disk}))
      chosen_.lower_bound = solved->lower_bound + layers.outside_seconds() + optimizer_;
  }

 private:
  struct Over {
    double seconds = 0;
    uint64_t device = 0;
  };

  template <typename Rank>
  std::vector<const Candidate*> in_order(const std::vector<Candidate>& candidates, const Rank& rank) const {
    std::vector<const Candidate*> order;
    for (const Candidate& c : candidates) order.push_back(&c);
    std::stable_sort(order.begin(), order.end(), [&](const Candidate* a, const Candidate* b) {
      return rank(a->bounds) < rank(b->bounds);
    });
    order.erase(std::unique(order.begin(), order.end(),
                            [](const Candidate* a, const Candidate* b) { return a->plan == b->plan; }),
                order.end());
    return order;
  }

  uint64_t device_of(const Candidate& c) const { return persistent_ + c.bounds.device; }

  bool may_be_better(double seconds, uint64_t device) const {
    const double best = chosen_.takes.seconds;
    if (seconds > best * (1 + kSumError)) return false;
    return seconds < best * (1 - kSumError) || device <= chosen_.takes.device;
  }

  const Surroundings& of_;
  const PlanBudgets& budgets_;
  const TryPlan& try_plan_;
  ChosenPlan chosen_;
  uint64_t persistent_ = 0;
  double optimizer_ = 0;
  std::vector<Over> over_;  // the device's budget alone
};

}  // namespace

Residences residences_of(const CheckpointingSettings& c, int64_t tensor_ranks, bool sequence_parallel) {
  return {.partition = tensor_ranks > 1 && !sequence_parallel,
          .host = c.cpu_checkpointing || c.host_memory_budget > 0,
          .disk = !c.disk_checkpointing.path.empty()};
}

ChosenPlan choose_plan(const Surroundings& of, const std::vector<uint64_t>& workspaces,
                       const PlanBudgets& budgets, const TryPlan& try_plan) {
  Search search(of, budgets, try_plan);
  if (search.fits(save_everything(of)) || of.saved.layer_inputs().empty()) return search.finish();
  const BoundMaker bounds(of.graph, of.saved, of.device, of.storage, workspaces);
  const Candidates candidates = list_candidates(of, bounds, budgets.host, budgets.disk);
  search.look_through(candidates.plans);
  for (const std::vector<Candidate>& ladder : candidates.ladders) search.climb(ladder);
  if (!search.found()) search.find_smallest(candidates);
  search.note_bound(LayerOptions(of.graph, of.saved, of.device, of.residences, of.storage, bounds));
  return search.finish();
}

}  // namespace recollect
