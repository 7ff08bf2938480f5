// What section scheduler says, and whether it can be done.
#pragma once

#include <vector>

#include "launch/config/inert_rules.h"
#include "launch/config/validate.h"

namespace recollect {

void check_schedule(const Config& config, std::vector<Finding>& found);
// Its keys that have no effect.
std::vector<InertRule> inert_schedule_rules();

}  // namespace recollect
