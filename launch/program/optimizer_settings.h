// The settings of a configuration that update rules use.
#pragma once

#include "launch/config/config.h"
#include "parallel/optimizers/rule.h"

namespace recollect {

OptimizerSettings optimizer_settings(const Config& config);

}  // namespace recollect
