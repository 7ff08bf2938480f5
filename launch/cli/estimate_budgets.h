// recollect estimate --policies and --pareto: what a memory budget costs, as tables.
#pragma once

#include "launch/program/compare_budgets.h"

namespace recollect {

void print_policies(const Config& config, bool json);
void print_pareto(const BudgetComparison& budgets, bool json);

}  // namespace recollect
