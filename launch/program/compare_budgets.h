// Compares memory budgets: the policies of mode auto by sequence length, and step time against budget for the
// modes that plan and for the named modes.
#pragma once

#include <string>
#include <vector>

#include "launch/program/estimate.h"
#include "launch/program/lengths.h"

namespace recollect {

// One policy of activation_checkpointing.budget_policy, or mode dtr, at the lengths to which sequences are
// padded, the longest last. Results over the budget are listed too.
struct PolicyEstimate {
  std::string policy;
  std::vector<std::string> recomputed = {};  // policy fixed: the named layers
  std::vector<LengthEstimate> lengths = {};
  double epoch_seconds = 0;  // 0: the counts of lengths are unknown
};
// The policies dynamic, static, fixed, full and none (DC, DCS, PC, GC and None in published comparisons),
// then dtr if it finds a plan for every length. fixed recomputes the layers in
// activation_checkpointing.recompute_layers. If none are named, it is the plan that static chose for the
// longest sequences: published comparisons also have steps that first measure memory, which no run here
// needs. Rows are the lengths in `counts`, or without counts up to 12 of the possible lengths. Throws
// kConfiguration without a budget, kDeviceMemory if it is too small.
std::vector<PolicyEstimate> compare_policies(const Config& resolved, const LengthCounts& counts = {});

// The result of a mode for a budget; 0 bytes mean that no plan fits.
struct BudgetPoint {
  uint64_t budget = 0, arena_bytes = 0;
  double step_seconds = 0;
};
struct BudgetCurve {
  std::string mode;
  std::vector<BudgetPoint> points;
};
// The memory and time of a mode without a budget, with its switches off.
struct NamedMode {
  std::string mode;
  uint64_t arena_bytes = 0;
  double step_seconds = 0;
};
struct BudgetComparison {
  std::vector<BudgetCurve> curves;  // modes that plan, auto first; same budgets, ascending
  std::vector<NamedMode> named;     // only modes with an effect
};
// Compares budgets from the smallest that works for mode auto up to the memory of mode none, including the
// memory of each named mode. Host memory and disk are used as the configuration allows.
BudgetComparison compare_budgets(const Config& resolved);

}  // namespace recollect
