// Adam (Kingma & Ba, 2015) in three forms: torch.optim.AdamW, torch.optim.Adam, and the AdamW that
// Transformers used to have.
#pragma once

#include <memory>
#include <string>

#include "parallel/optimizers/rule.h"

namespace recollect {

// `settings.name` is the form, and the op's.
std::unique_ptr<OptimizerRule> make_adam(const OptimizerSettings& settings);

}  // namespace recollect
