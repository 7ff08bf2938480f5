#include "checkpointing/planner/auto.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "checkpointing/planner/chain_costs.h"
#include "checkpointing/planner/dtr.h"
#include "checkpointing/planner/plan_floor.h"
#include "checkpointing/planner/plan_front.h"

namespace recollect {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kManyTrials = 6;  // in vain: from then on a plan must promise more
constexpr double kWorthATrial = 1e-3;
constexpr double kOrderError = 1e-9;  // of seconds: more than two orders of adding them can differ by

class Search {
 public:
  Search(const Surroundings& of, const PlanBudgets& budgets, const TryPlan& try_plan, const KeepTrial& keep)
      : of_(of), budgets_(budgets), try_plan_(try_plan), keep_(keep) {}

  // The best plan of those that fit becomes the answer.
  void try_out(const DraftPlan& draft, const PlanBounds& bounds, Moves moves = Moves::kChosen) {
    if (std::find(tried_.begin(), tried_.end(), draft) != tried_.end()) return;
    tried_.push_back(draft);
    ++chosen_.tried;
    Plan plan = plan_of(draft, of_.graph, of_.saved);
    const std::optional<PlanTrial> trial = try_plan_(plan, moves);
    if (!trial) return;
    if (chosen_.tried == 1) persistent_ = trial->persistent, beside_ = trial->beside;
    if (trial->host > budgets_.host || trial->disk > budgets_.disk) {
      ++too_much_elsewhere_;
      host_beyond_ = std::min(host_beyond_, trial->host - std::min(trial->host, bounds.host));
      return;
    }
    chosen_.smallest_device = std::min(chosen_.smallest_device, trial->device);
    if (trial->device > budgets_.device) {
      return over_.push_back({trial->seconds, trial->device});
    }
    const auto rank = [](const PlanTrial& t) { return std::tuple(t.seconds, t.device, t.disk, t.host); };
    ++in_vain_;
    if (found() && rank(chosen_.takes) <= rank(*trial)) return;
    in_vain_ = 0;
    chosen_.plan = std::move(plan);
    chosen_.takes = *trial;
    keep_(trial->seconds);
  }

  // Each candidate is tried that might be the answer. Those of the least seconds come first: they end the search.
  void look_through(const std::vector<Candidate>& candidates, const BoundMaker* bounds) {
    const auto order =
        in_order(candidates, [](const PlanBounds& b) { return std::tuple(b.seconds, b.device); });
    chosen_.known += static_cast<int64_t>(order.size());
    for (const Candidate* c : order) {
      const double seconds = c->bounds.seconds + beside_;
      if (c->bounds.host > budgets_.host || c->bounds.disk > budgets_.disk || takes_too_much_elsewhere(*c))
        continue;
      if (device_of(*c) > budgets_.device)
        over_.push_back({seconds, device_of(*c)});
      else if ((!found() || may_be_better(seconds, device_of(*c))) && !is_over(*c, bounds))
        try_out(c->plan, c->bounds);
    }
  }

  // The plan of mode dtr in this budget.
  std::optional<Candidate> evicted(const BoundMaker& bounds) const {
    if (budgets_.device <= persistent_ || !bounds.metered(save_everything(of_))) return {};
    const auto metered = [&](const Plan& plan) {
      const std::optional<PlanBounds> b = bounds.metered(draft_of(plan, of_.graph, of_.saved));
      return b ? *b : PlanBounds{.device = PlanBudgets::kAny};
    };
    const std::optional<DtrResult> found = make_dtr_plan(
        of_.graph, of_.saved, of_.device, budgets_.device - persistent_, EvictionHeuristic::kDtrEq,
        {[&](const Plan& plan) { return metered(plan).device; },
         [&](const Plan& plan) { return metered(plan).seconds; }});
    if (!found) return {};
    DraftPlan plan = draft_of(found->plan, of_.graph, of_.saved);
    const PlanBounds takes = bounds.of(plan);
    return Candidate{std::move(plan), takes};
  }

  // Where none fits: what the least one takes. What is left to be tried is over the budget by its bounds.
  void find_smallest(const std::vector<Candidate>& candidates, const BoundMaker& bounds) {
    for (const Candidate* c :
         in_order(candidates, [](const PlanBounds& b) { return std::tuple(b.device, b.seconds); })) {
      if (device_of(*c) >= chosen_.smallest_device) return;
      if (c->bounds.host > budgets_.host || c->bounds.disk > budgets_.disk) continue;
      const std::optional<PlanBounds> closer = bounds.closer(c->plan);
      if (!closer || persistent_ + closer->device < chosen_.smallest_device)
        try_out(c->plan, c->bounds, Moves::kLeast);
    }
  }

  void note_bound(const PlanFloor& floor) {
    chosen_.lower_bound = least_seconds(floor, 0);
    const double most = chosen_.takes.seconds - least_seconds(floor, kMiB);
    for (const Over& over : over_) {
      if (over.device <= chosen_.takes.device) continue;
      const uint64_t more = std::max(kMiB, over.device - chosen_.takes.device);
      const double spared =
          (chosen_.takes.seconds - over.seconds) * static_cast<double>(kMiB) / static_cast<double>(more);
      chosen_.price = std::max(chosen_.price, std::min(spared, most));
    }
  }

  bool found() const { return chosen_.plan.has_value(); }
  // The part of the device budget that persistent values leave.
  uint64_t left_on_device() const { return budgets_.device - std::min(budgets_.device, persistent_); }
  ChosenPlan finish() { return std::move(chosen_); }

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

  // Of any plan with so many bytes more than the budget; 0 where none is known.
  double least_seconds(const PlanFloor& floor, uint64_t more) const {
    uint64_t bytes = budgets_.device == PlanBudgets::kAny ? budgets_.device
                                                          : add_bytes(budgets_.device - persistent_, more);
    if (of_.residences.host) bytes = add_bytes(bytes, budgets_.host);
    if (of_.residences.disk) bytes = add_bytes(bytes, budgets_.disk);
    const std::optional<double> seconds = floor.seconds(bytes);
    return seconds ? *seconds + beside_ * (1 - kOrderError) : 0;
  }

  // Programs have shown by how much bounds of host memory are too low, always.
  bool takes_too_much_elsewhere(const Candidate& c) const {
    return too_much_elsewhere_ >= kManyTrials && c.bounds.host > 0 &&
           add_bytes(c.bounds.host, host_beyond_) > budgets_.host;
  }

  // By a closer look.
  bool is_over(const Candidate& c, const BoundMaker* bounds) {
    const std::optional<PlanBounds> closer = bounds ? bounds->closer(c.plan) : std::nullopt;
    if (!closer) return false;
    const uint64_t device = persistent_ + closer->device;
    if (device > budgets_.device) over_.push_back({closer->seconds + beside_, device});
    return device > budgets_.device || (found() && !may_be_better(closer->seconds + beside_, device));
  }

  uint64_t device_of(const Candidate& c) const { return persistent_ + c.bounds.device; }

  bool may_be_better(double seconds, uint64_t device) const {
    const double best = chosen_.takes.seconds;
    if (seconds > best * (1 + kOrderError)) return false;
    if (in_vain_ >= kManyTrials && seconds > best * (1 - kWorthATrial)) return false;
    return seconds < best * (1 - kOrderError) || device < chosen_.takes.device;
  }

  const Surroundings& of_;
  const PlanBudgets& budgets_;
  const TryPlan& try_plan_;
  const KeepTrial& keep_;
  ChosenPlan chosen_;
  std::vector<DraftPlan> tried_;
  uint64_t persistent_ = 0;
  double beside_ = 0;
  int too_much_elsewhere_ = 0;
  uint64_t host_beyond_ = PlanBudgets::kAny;
  int in_vain_ = 0;         // programs that fit, since the best one
  std::vector<Over> over_;  // the device's budget alone
};

}  // namespace

Residences residences_of(const CheckpointingSettings& c, int64_t tensor_ranks, bool sequence_parallel) {
  return {.partition = tensor_ranks > 1 && !sequence_parallel,
          .host = c.cpu_checkpointing || c.host_memory_budget > 0,
          .disk = !c.disk_checkpointing.path.empty()};
}

ChosenPlan choose_plan(const Surroundings& of, const std::vector<uint64_t>& workspaces,
                       const PlanBudgets& budgets, const TryPlan& try_plan, const KeepTrial& keep) {
  Search search(of, budgets, try_plan, keep);
  search.look_through({{.plan = save_everything(of), .bounds = {}}}, nullptr);
  // Where an op takes the same wherever it stands, what runs again or moves only takes time.
  const bool is_least = search.found() && of.device.memory_levels.empty();
  if (is_least || of.saved.layer_inputs().empty()) return search.finish();
  const BoundMaker bounds(of.graph, of.saved, of.device, of.storage, workspaces);
  std::vector<Candidate> candidates = list_candidates(of, bounds, budgets.host, budgets.disk);
  for (const Candidate& c : plans_of_front(of, bounds, candidates, search.left_on_device()))
    candidates.push_back(c);
  if (std::optional<Candidate> evicted = search.evicted(bounds)) candidates.push_back(*std::move(evicted));
  search.look_through(candidates, &bounds);
  if (!search.found()) search.find_smallest(candidates, bounds);
  if (search.found()) search.note_bound(PlanFloor(of.graph, of.saved, bounds, of.residences.partition));
  return search.finish();
}

}  // namespace recollect
