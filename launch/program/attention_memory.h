// How much workspace attention's backward takes on a GPU: that of the faster way, unless device.memory_limit is too small
// for it. Decided once, of the longest batch, by model, batch, layout, device.model and device.memory_limit. Not by what is
// checkpointed, nor by a budget for that: gradients are rounded otherwise, and a plan changes no bits.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// Of a differentiated graph. What was decided for a longer batch stands.
void decide_attention_memory(const Config& config, const Checkpointed* decided, ModelGraph& built);

// Adds remarks: whether backward takes the slower way, and which kernels a GPU uses for windows and capped scores.
void note_attention_memory(const Config& config, const ModelGraph& built, TrainingProgram& training);

}  // namespace recollect
