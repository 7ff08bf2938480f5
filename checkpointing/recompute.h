// Carries out the recompute half of a plan: in backward, an activation that was not saved is recomputed, just
// before its first use, by clones of the ops that made it, from the nearest values that are there. Lean by
// construction, since only what somebody reads is cloned; exact by construction, since a clone is the same op
// with the same attributes.
//
// A gathered value (sequence parallelism) is gathered again whatever the plan: its clone is an all-gather on
// the gather stream, of this rank's part, which the plan decides on. Only where the layer's own recomputation
// has gathered it a moment ago is it read from there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpointing/plan.h"
#include "checkpointing/saved_activations.h"
#include "engine/core/error.h"

namespace recollect {

struct Recomputed {
  std::vector<Reproduction> values = {};  // in program order
  std::optional<Error> refusal = {};      // kConfiguration: a step would have too many ops
};

// To be called on a differentiated graph, before gradients are reduced and the optimizer is appended. After a
// refusal the graph is of no use.
Recomputed recompute(Graph& graph, const SavedActivations& saved, const Plan& plan);

// What sequence parallelism gathers again in one micro-batch, on this rank.
struct GatheredAgain {
  int64_t values = 0;
  uint64_t saved_bytes = 0;     // that a rank need not hold between forward and backward
  uint64_t gathered_bytes = 0;  // made whole again
  bool operator==(const GatheredAgain&) const = default;
};
GatheredAgain gathered_again(const Graph& graph);

// What recomputation adds to one micro-batch, on this rank.
double recomputed_flops(const Graph& graph);

}  // namespace recollect
