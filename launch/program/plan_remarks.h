// Remarks on a plan that was searched, and on keys without effect.
#pragma once

#include <cstdint>

#include "checkpointing/planner/auto.h"
#include "launch/config/config.h"
#include "launch/program/training_program.h"

namespace recollect {

// For mode auto: what the plan saves, the unused part of the budget, and the largest distance from the
// optimum. `carried_out` is the plan in the program.
Remark remark_on_choice(const Config& config, const ChosenPlan& chosen, const Plan& carried_out,
                        uint64_t budget);

// Remarks on keys without effect. A run that only evaluates does not use many keys of a training; this gives
// one remark.
std::vector<Remark> remarks_on_unreached(const Config& config);

}  // namespace recollect
