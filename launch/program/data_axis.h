// The ops that data ranks add to a program: all-reduces of gradients in buckets, and gathers of everything
// that parallelism.zero_stage shards.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// Call it after backward is complete.
void reduce_over_data(Graph& graph, const Config& config, const Mesh& mesh, TrainingProgram& training);

// Call it after the optimizer has been added. The simulator decides how far ahead parameters are prefetched,
// for the longest length; all lengths use the same. `least` prefetches as late as possible.
void gather_over_data(Graph& graph, const Mesh& mesh, TrainingProgram& training, bool least);

}  // namespace recollect
