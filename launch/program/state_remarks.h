// What the reports say of a parameter's states and master copy where those take fewer bytes than they would.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// Of a program whose optimizer is in `graph`.
void remark_on_states(const Config& config, const Graph& graph, TrainingProgram& training);

}  // namespace recollect
