// Whether a micro-batch can be divided as it is asked to be: into halves, and its tokens over tensor ranks.
#pragma once

#include <vector>

#include "launch/config/validate.h"

namespace recollect {

void check_division(const Config& config, std::vector<Finding>& found);

}  // namespace recollect
