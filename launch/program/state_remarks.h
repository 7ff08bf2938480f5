// Remarks on parameters that take fewer bytes than usual (frozen ones, small states, no master copies), and
// on those that take more.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// For a model with parameters that optimizer.groups or adapters freeze; counts the whole model over all
// ranks.
void remark_on_frozen(TrainingProgram& training);

// For a program whose optimizer is in `graph`.
void remark_on_states(const Config& config, const Graph& graph, TrainingProgram& training);

// For weights with FP8 codes that the micro-batches of a step, or all steps, share.
void remark_on_weight_codes(const Config& config, const Graph& graph, TrainingProgram& training);

}  // namespace recollect
