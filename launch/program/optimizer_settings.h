// What update rules read of a configuration.
#pragma once

#include "launch/config/config.h"
#include "parallel/optimizers/rule.h"

namespace recollect {

OptimizerSettings optimizer_settings(const Config& config);

}  // namespace recollect
