// Chooses between two ways of attention's backward on a GPU: the faster one with more workspace, unless
// device.memory_limit is too small for it. The choice is made once, for the longest batch, from model, batch,
// layout, device.model and device.memory_limit. It does not depend on checkpointing or its budget, because
// the two ways round gradients differently and a plan must not change bits.
#pragma once

#include "launch/program/training_program.h"

namespace recollect {

// Decides for a differentiated graph. A decision for a longer batch (`decided`) stays.
void decide_attention_memory(const Config& config, const Checkpointed* decided, ModelGraph& built);

// Adds remarks: whether backward uses the slower way, and which kernels a GPU uses for windows and capped
// scores.
void note_attention_memory(const Config& config, const ModelGraph& built, TrainingProgram& training);

}  // namespace recollect
