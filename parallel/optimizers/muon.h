// Muon (Jordan et al., 2024) as torch.optim.Muon has it, in the precision of masters: the momentum of a layer's matrix is made
// orthogonal by a Newton-Schulz iteration. Whatever is no matrix of a layer (embeddings, heads, biases and norms) is AdamW's.
// Ranks that hold parts of a matrix multiply their parts, and add the products up: no rank needs all of it.
#pragma once

#include <memory>

#include "parallel/optimizers/rule.h"

namespace recollect {

std::unique_ptr<OptimizerRule> make_muon(const OptimizerSettings& settings);

}  // namespace recollect
