// What a memory budget costs: the policies of mode auto by length of sequences, and time against budget for the modes
// that plan, beside what named modes take.
#pragma once

#include <string>
#include <vector>

#include "launch/program/estimate.h"
#include "launch/program/lengths.h"

namespace recollect {

// One policy of activation_checkpointing.budget_policy, or mode dtr, at the lengths to which sequences are padded, the
// longest last. What is over the budget is listed all the same.
struct PolicyEstimate {
  std::string policy;
  std::vector<std::string> recomputed = {};  // fixed: the layers that are named
  std::vector<LengthEstimate> lengths = {};
  double epoch_seconds = 0;  // 0: nobody knows how often lengths come
};
// dynamic, static, fixed, full, none: DC, DCS, PC, GC and None of published comparisons; behind them dtr, where it finds a plan
// for every length. fixed recomputes the layers of activation_checkpointing.recompute_layers. Where none are named it is the
// plan that static chose for the longest sequences: what differs in published comparisons, the steps in which memory was
// measured first, no run here has. Rows are the lengths of `counts`, or, where there are none, up to 12 of those that the run
// may meet. Error kConfiguration without a budget, kDeviceMemory where it is too small.
std::vector<PolicyEstimate> compare_policies(const Config& resolved, const LengthCounts& counts = {});

// What a mode makes of a budget; 0 bytes: no plan that fits.
struct BudgetPoint {
  uint64_t budget = 0, arena_bytes = 0;
  double step_seconds = 0;
};
struct BudgetCurve {
  std::string mode;
  std::vector<BudgetPoint> points;
};
// What a mode takes that has no budget, its switches off.
struct NamedMode {
  std::string mode;
  uint64_t arena_bytes = 0;
  double step_seconds = 0;
};
struct BudgetComparison {
  std::vector<BudgetCurve>
      curves;  // of the modes that plan, auto first, at the same budgets, the smallest first
  std::vector<NamedMode> named;  // those that have an effect
};
// From the smallest budget that works for mode auto to what mode none takes, by way of what each named mode takes; in host
// memory and on the disk as far as the configuration lets them be used.
BudgetComparison compare_budgets(const Config& resolved);

}  // namespace recollect
