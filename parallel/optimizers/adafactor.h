// Adafactor (Shazeer and Stern, 2018) in two forms: torch.optim.Adafactor, and Transformers'. Of a matrix it keeps a number
// for each row and each column in place of one for each element. What is a tensor of its own in the model's files is a
// matrix of its own here; where ranks hold parts of one, its means are over all of it.
#pragma once

#include <memory>

#include "parallel/optimizers/rule.h"

namespace recollect {

std::unique_ptr<OptimizerRule> make_adafactor(const OptimizerSettings& settings);

}  // namespace recollect
