// Chooses the number of chunks into which matrix products are cut to overlap with the collectives of tensor
// ranks. The configuration sets it, or else the simulator and the cores of the node decide. Measurements of
// the run never change it, so that it is constant and equal on all ranks.
#pragma once

#include <cstdint>

#include "launch/program/training_program.h"

namespace recollect {

// For a differentiated graph with several tensor ranks. `device` is the one that the configuration describes.
void decide_pieces(const Config& config, const DeviceModel& device, ModelGraph& built);

// With overlap_halves the graph has half of the samples of a micro-batch. This extends it to both halves, and
// the program's model to the whole micro-batch. Otherwise it changes nothing.
void add_second_half(const Config& config, int64_t samples, TrainingProgram& training, Graph& graph);

// Records the number of chunks in the program, decided for this or a longer batch, and adds a remark if there
// are any.
void note_pieces(const Config& config, int64_t pieces, TrainingProgram& training);

}  // namespace recollect
