// What the reports say of parameters that take fewer bytes than they would, those that are not trained and those whose states
// or master copies are small; and of those that take more.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// Of a model of which optimizer.groups or adapters freeze a part, as all ranks together hold it.
void remark_on_frozen(TrainingProgram& training);

// Of a program whose optimizer is in `graph`.
void remark_on_states(const Config& config, const Graph& graph, TrainingProgram& training);

// Of weights whose codes a step's micro-batches share, or all steps.
void remark_on_weight_codes(const Config& config, const Graph& graph, TrainingProgram& training);

}  // namespace recollect
