// recollect estimate --policies and --pareto: what a memory budget costs, as tables.
#pragma once

#include "launch/program/compare_budgets.h"

namespace recollect {

// `counts`: of lengths, which may be empty: then all that the run may meet are shown, and no epoch.
void print_policies(const Config& config, const LengthCounts& counts, bool json);
void print_pareto(const Config& config, const BudgetComparison& budgets, bool json);

}  // namespace recollect
