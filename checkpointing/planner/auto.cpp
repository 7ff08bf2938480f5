#include "checkpointing/planner/auto.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "checkpointing/planner/ladder.h"
#include "checkpointing/policies.h"

namespace recollect {

namespace {

constexpr std::size_t kFurther = 5;

class Search {
 public:
  Search(const PlanBudgets& budgets, const TryPlan& try_plan) : budgets_(budgets), try_plan_(try_plan) {}

  // Whether the plan fits; the best of those becomes the answer.
  bool fits(const Plan& plan) {
    const auto known =
        std::find_if(known_.begin(), known_.end(), [&](const auto& one) { return one.first == plan; });
    if (known != known_.end()) return known->second;
    const bool does = try_out(plan);
    known_.emplace_back(plan, does);
    return does;
  }

  // The last of `plans` that fits, if each needs more than those before it. Where the halving looks does not
  // depend on the budget before it has an answer, so that a larger one ends no earlier.
  template <typename MakePlan>
  void climb(std::size_t plans, const MakePlan& plan) {
    if (plans == 0 || fits(plan(plans - 1)) || !fits(plan(0))) return;
    std::size_t low = 0, high = plans - 1;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (fits(plan(middle)) ? low : high) = middle;
    }
    // Where values live at one time and what lies between them may let a later one need less.
    for (std::size_t next = high + 1; next < std::min(plans, high + kFurther); ++next) fits(plan(next));
  }

  ChosenPlan finish() {
    for (const PlanTrial& over : over_) {
      const double spared = chosen_.takes.seconds - over.seconds;
      chosen_.price =
          std::max(chosen_.price, spared / static_cast<double>(over.device - chosen_.takes.device));
    }
    return std::move(chosen_);
  }
  bool found() const { return chosen_.plan.has_value(); }

 private:
  bool try_out(const Plan& plan) {
    ++chosen_.tried;
    const std::optional<PlanTrial> trial = try_plan_(plan);
    if (!trial || trial->host > budgets_.host || trial->disk > budgets_.disk) return false;
    chosen_.smallest_device = std::min(chosen_.smallest_device, trial->device);
    if (trial->device > budgets_.device) {
      over_.push_back(*trial);
      return false;
    }
    const auto rank = [](const PlanTrial& t) { return std::tuple(t.seconds, t.device, t.host, t.disk); };
    if (!chosen_.plan || rank(*trial) < rank(chosen_.takes)) chosen_.plan = plan, chosen_.takes = *trial;
    return true;
  }

  const PlanBudgets& budgets_;
  const TryPlan& try_plan_;
  ChosenPlan chosen_;
  std::vector<PlanTrial> over_;  // the device's budget alone
  std::vector<std::pair<Plan, bool>> known_;
};

// The settings with which a named mode makes its plan in these residences.
CheckpointingSettings named(CheckpointingMode mode, const Residences& in,
                            const CheckpointingSettings& settings, int64_t k = 0) {
  CheckpointingSettings named{.mode = mode, .k = k};
  named.partition_activations = in.partition;
  named.cpu_checkpointing = in.host;
  if (in.disk) named.disk_checkpointing = settings.disk_checkpointing;
  return named;
}

// `plan` with what the first `rungs` hold decided as in `as`.
Plan raised(Plan plan, const Plan& as, const Graph& graph, const std::vector<Rung>& ladder,
            std::size_t rungs) {
  for (std::size_t i = 0; i < rungs; ++i)
    for (ValueId v : ladder[i].values)
      plan.values.at(graph.value(v).name) = as.values.at(graph.value(v).name);
  return plan;
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

}  // namespace

Residences residences_of(const CheckpointingSettings& c, int64_t tensor_ranks, bool sequence_parallel) {
  return {.partition = tensor_ranks > 1 && !sequence_parallel,
          .host = c.cpu_checkpointing || c.host_memory_budget > 0,
          .disk = !c.disk_checkpointing.path.empty()};
}

ChosenPlan choose_plan(const Graph& graph, const SavedActivations& saved,
                       const CheckpointingSettings& settings, const Residences& residences,
                       const DeviceModel& device, const PlanBudgets& budgets, const TryPlan& try_plan) {
  Search search(budgets, try_plan);
  const Plan everything = make_plan(graph, saved, named(CheckpointingMode::kNone, {}, settings));
  if (saved.layer_inputs().empty() || search.fits(everything)) {
    search.fits(everything);
    return search.finish();
  }
  const std::vector<Rung> ladder = make_ladder(graph, saved, device);
  std::vector<Rung> by_layer = ladder;  // to come back to the device: the last layers first
  std::stable_sort(by_layer.begin(), by_layer.end(),
                   [](const Rung& a, const Rung& b) { return a.layer > b.layer; });
  const auto layers = static_cast<int64_t>(saved.layer_inputs().size());
  for (const Residences& in : combinations(residences)) {
    const auto plan_of = [&](CheckpointingMode mode, int64_t k = 0) {
      return make_plan(graph, saved, named(mode, in, settings, k));
    };
    const Plan all = plan_of(CheckpointingMode::kNone), inputs = plan_of(CheckpointingMode::kFull);
    const auto climb = [&](const Plan& from, const Plan& as, const std::vector<Rung>& rungs) {
      search.climb(rungs.size() + 1, [&](std::size_t i) { return raised(from, as, graph, rungs, i); });
    };
    climb(inputs, all, ladder);
    climb(plan_of(CheckpointingMode::kEveryK, 1), all, ladder);
    if (all != everything) {
      climb(all, everything, by_layer);
      climb(inputs, everything, ladder);
    }
    search.fits(plan_of(CheckpointingMode::kSelective));
    for (int64_t k = 2; k < layers; k = k < 4 ? k + 1 : k * 3 / 2) {
      const Plan segments = plan_of(CheckpointingMode::kEveryK, k);
      climb(segments, all, ladder);
    }
    climb(plan_of(CheckpointingMode::kSqrt), all, ladder);
    climb(plan_of(CheckpointingMode::kRecursive), all, ladder);
    if (!search.found() || layers <= 16) climb(plan_of(CheckpointingMode::kConstantMemory), all, ladder);
  }
  return search.finish();
}

}  // namespace recollect
