// What a program does because there are data ranks: sums of gradients in buckets, and whatever parallelism.zero_stage
// divides, gathered again where it is needed.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// To be called when backward is complete.
void reduce_over_data(Graph& graph, const Config& config, const Mesh& mesh, TrainingProgram& training);

// To be called behind the optimizer. How far ahead parameters are gathered the simulator decides, for all lengths as for
// the longest; `least`: as late as can be.
void gather_over_data(Graph& graph, const Mesh& mesh, TrainingProgram& training, bool least);

}  // namespace recollect
