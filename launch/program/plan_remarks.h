// What is said of a plan that was searched for, and of keys without effect.
#pragma once

#include <cstdint>

#include "checkpointing/planner/auto.h"
#include "launch/config/config.h"
#include "launch/program/training_program.h"

namespace recollect {

// Mode auto: what the plan saves, how much of the budget it leaves, and how far from optimal it can be. `carried_out`: as it
// stands in the program.
Remark remark_on_choice(const Config& config, const ChosenPlan& chosen, const Plan& carried_out,
                        uint64_t budget);

// On keys without effect. An evaluation alone leaves many of a training's keys so: that is one remark.
std::vector<Remark> remarks_on_unreached(const Config& config);

}  // namespace recollect
