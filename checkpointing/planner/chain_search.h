// The choice of least seconds within budgets: dynamic programming over a chain from its last layer to its first, with
// labels of exact bytes. A label is a choice for the layers from one on: what it needs on the device beside what the
// layers before hold, its host and disk bytes, its seconds, and what every whole choice that ends so takes at least
// (chain_bound.h). Those stay that could be less than the best choice known and that no other is as good as in all.
// Where they are too many, those of the highest bounds go, and the least of these bounds what is left of the proof.
#pragma once

#include <optional>

#include "checkpointing/planner/chain_bound.h"
#include "checkpointing/planner/chain_costs.h"

namespace recollect {

struct FoundChoice {
  std::vector<int> options;  // by layer
  double seconds = 0;
  double below = 0;  // no choice within the budgets takes less
};

// Of a part of the seconds, how far from the bound a choice may be for the search to end.
enum class Effort { kRoughly, kClosely };

// Nothing where no choice fits.
std::optional<FoundChoice> find_choice(const ChainCosts& costs, const ChainBudgets& budgets, Effort effort);

}  // namespace recollect
