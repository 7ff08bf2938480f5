// A policy makes a plan for a differentiated graph.
//
// none             saves everything.
// full             saves each layer's input (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
//                  2016, k = 1).
// every_k          saves the input of every k-th layer, and all of the last segment, which is needed at once.
// sqrt             every_k with k = ceil(sqrt(layers)): at most 2n - sqrt(n) layer evaluations.
// selective        saves what costs much to recompute and recomputes the named groups (Korthikanti et al.,
//                  2022).
// recursive        saves log n layer inputs: n + n/2 log2 n evaluations (Chen et al., section 4.2).
// auto             has no plan of its own (planner/auto.h) but with the budget policies fixed, which recomputes the
//                  named layers and saves the others, full and none.
// dtr              likewise (planner/dtr.h).
// constant_memory  saves the first layer's input only: O(1) memory, n (n + 1) / 2 evaluations.
#pragma once

#include <string>
#include <vector>

#include "checkpointing/plan.h"
#include "checkpointing/planner/draft_plan.h"
#include "checkpointing/saved_activations.h"
#include "checkpointing/settings.h"

namespace recollect {

// The groups that cost little and save much, and never run a GEMM again.
std::vector<std::string> cheap_groups();

// By the mode of the settings; their switches apply to what it saves.
DraftPlan make_draft(const Graph& graph, const SavedActivations& saved,
                     const CheckpointingSettings& settings);
Plan make_plan(const Graph& graph, const SavedActivations& saved, const CheckpointingSettings& settings);

// Of the layers' inputs, `held` at a time, the first one among them, where they spare the most recomputation
// (binomial.h); and all of the last layer. Every other layer runs again from the nearest input that is there.
DraftPlan make_binomial_draft(const Graph& graph, const SavedActivations& saved, int64_t held,
                              const CheckpointingSettings& settings);

// `plan` with what it saves in the places to which the switches of the settings send it.
Plan placed(Plan plan, const Graph& graph, const SavedActivations& saved,
            const CheckpointingSettings& settings);

}  // namespace recollect
