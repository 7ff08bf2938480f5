// What section optimizer says of states that are kept elsewhere, and whether it can be done.
#pragma once

#include <vector>

#include "launch/config/inert_rules.h"
#include "launch/config/validate.h"

namespace recollect {

void check_offloaded_states(const Config& config, std::vector<Finding>& found);
// Its keys that have no effect.
std::vector<InertRule> inert_offload_rules();

}  // namespace recollect
