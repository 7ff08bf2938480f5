// torch.optim.SGD with momentum and without dampening.
#pragma once

#include <memory>

#include "parallel/optimizers/rule.h"

namespace recollect {

std::unique_ptr<OptimizerRule> make_sgd(const OptimizerSettings& settings);

}  // namespace recollect
