// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023), with decoupled weight decay.
#pragma once

#include <memory>

#include "parallel/optimizers/rule.h"

namespace recollect {

std::unique_ptr<OptimizerRule> make_lion(const OptimizerSettings& settings);

}  // namespace recollect
