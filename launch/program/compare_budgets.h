// What a memory budget costs: the policies of mode auto by length of sequences, and time against budget, beside what
// named modes would take.
#pragma once

#include <string>
#include <vector>

#include "launch/program/estimate.h"

namespace recollect {

// One policy of activation_checkpointing.budget_policy at the lengths to which sequences are padded, the longest
// last. What is over the budget is listed all the same, and says so.
struct PolicyEstimate {
  std::string policy;
  std::vector<LengthEstimate> lengths;
};
// none, full, static, dynamic, and fixed where activation_checkpointing.recompute_layers names layers. Error
// kConfiguration without a budget, kDeviceMemory where it is too small.
std::vector<PolicyEstimate> compare_policies(const Config& resolved);

// What mode auto makes of a budget.
struct BudgetEstimate {
  uint64_t budget = 0, arena_bytes = 0;
  double step_seconds = 0;
};
// From the smallest budget that works to what mode none takes.
std::vector<BudgetEstimate> estimate_budgets(const Config& resolved);

// The budget of a configuration: the smaller of memory_budget and device.memory_limit; 0: there is none.
uint64_t budget_of(const Config& config);

}  // namespace recollect
