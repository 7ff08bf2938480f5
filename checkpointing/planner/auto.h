// Mode auto: the fastest plan found that needs no more than its budgets. Every plan that could be the answer is made a
// program, whose exact memory decides: an estimate never lets one in.
//
// Candidates are the plans of ladders (ladder.h), searched by halving, and all named modes, with saved values on
// the device and in every other residence that the settings allow. None of them depends on the budgets.
#pragma once

#include <functional>
#include <optional>

#include "checkpointing/device_model.h"
#include "checkpointing/plan.h"
#include "checkpointing/saved_activations.h"
#include "checkpointing/settings.h"
#include "engine/graph/op_def.h"

namespace recollect {

struct PlanBudgets {
  static constexpr uint64_t kAny = ~uint64_t{0};
  uint64_t device = kAny, host = kAny, disk = kAny;
};

// What a plan's program takes, exactly, and its step by the simulator.
struct PlanTrial {
  uint64_t device = 0, host = 0, disk = 0;
  double seconds = 0;
};
// Nothing where the plan cannot be carried out.
using TryPlan = std::function<std::optional<PlanTrial>(const Plan&)>;

struct ChosenPlan {
  std::optional<Plan> plan;  // nothing where none fits
  PlanTrial takes;
  double price =
      0;  // seconds of a micro-batch that a byte more would spare, by the best of those over the budget
  int64_t tried = 0;                             // programs that were planned for it
  uint64_t smallest_device = PlanBudgets::kAny;  // that a plan within the other budgets takes
};

// Where saved activations may wait, beside the device.
struct Residences {
  bool partition = false, host = false, disk = false;
};
Residences residences_of(const CheckpointingSettings& settings, int64_t tensor_ranks, bool sequence_parallel);

ChosenPlan choose_plan(const Graph& graph, const SavedActivations& saved,
                       const CheckpointingSettings& settings, const Residences& residences,
                       const DeviceModel& device, const PlanBudgets& budgets, const TryPlan& try_plan);

}  // namespace recollect
