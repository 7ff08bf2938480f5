// recollect estimate --policies and --pareto: what a memory budget costs, as tables.
#pragma once

#include "launch/config/config.h"

namespace recollect {

void print_policies(const Config& config, bool json);
void print_pareto(const Config& config, bool json);

}  // namespace recollect
