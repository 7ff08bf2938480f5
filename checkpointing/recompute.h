// Carries out the recompute half of a plan: in backward, a value that was not kept is made again, just before
// its first use, by clones of the ops that made it, from the nearest values that are there. Lean by
// construction, since only what somebody reads is cloned; exact by construction, since a clone is the same op
// with the same attributes.
#pragma once

#include <string_view>

#include "checkpointing/plan.h"

namespace recollect {

// To be called on a differentiated graph, before gradients are reduced and the optimizer is appended. Returns
// what was made again, in program order.
std::vector<Reproduction> recompute(Graph& graph, const Plan& plan);

// Whether an op of that name makes something again.
bool is_recomputation(std::string_view op_name);

// What recomputation adds to one micro-batch, on this rank.
double recomputed_flops(const Graph& graph);

}  // namespace recollect
