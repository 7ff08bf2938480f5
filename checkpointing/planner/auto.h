// Mode auto: of its candidates (candidates.h) the one that takes the least time, and of such the least memory, within its
// budgets. A plan is left untried only where it is proven (plan_bounds.h) that it would not be the answer; every other one
// is made a program, whose exact memory decides. An estimate never lets one in.
#pragma once

#include <functional>
#include <optional>

#include "checkpointing/plan.h"
#include "checkpointing/planner/candidates.h"

namespace recollect {

// Of a rank. In host memory and on the disk: for saved activations alone.
struct PlanBudgets {
  static constexpr uint64_t kAny = ~uint64_t{0};
  uint64_t device = kAny, host = kAny, disk = kAny;
};

// What a plan's program takes, exactly, and its step by the simulator.
struct PlanTrial {
  uint64_t device = 0;
  uint64_t host = 0, disk = 0;  // of saved activations
  uint64_t persistent = 0;      // device bytes that are the same whatever the plan
  double seconds = 0;
  double beside =
      0;  // those of them that stand beside PlanBounds in any plan (any_plan.h); of the plan that saves everything
};
// What the settings leave open of moves (choose.h): simulated if that fits the device's budget, or as little as can be.
enum class Moves { kChosen, kLeast };
// Nothing where the plan cannot be carried out.
using TryPlan = std::function<std::optional<PlanTrial>(const Plan&, Moves)>;
// The plan that was tried last is the best so far.
using KeepTrial = std::function<void(double seconds)>;

struct ChosenPlan {
  std::optional<Plan> plan;  // nothing where none fits
  PlanTrial takes;
  // Seconds of a step of one micro-batch: no plan within the budgets takes less (plan_floor.h). 0 where none fits.
  double lower_bound = 0;
  double price = 0;  // seconds of a micro-batch that a MiB more would spare at most, by any candidate
  int64_t tried = 0, known = 0;  // plans: made a program, and all
  uint64_t smallest_device =
      PlanBudgets::kAny;  // of the candidates within the other budgets; where none fits
};

Residences residences_of(const CheckpointingSettings& settings, int64_t tensor_ranks, bool sequence_parallel);

// `workspaces`: by op of the graph, bytes.
ChosenPlan choose_plan(const Surroundings& of, const std::vector<uint64_t>& workspaces,
                       const PlanBudgets& budgets, const TryPlan& try_plan, const KeepTrial& keep);

}  // namespace recollect
