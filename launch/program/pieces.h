// Into how many pieces the products beside which tensor ranks talk are cut: as the configuration says, or as the simulator
// and the cores of the node have it. Never by what the run has measured: pieces stay those with which it began, and all
// ranks have the same.
#pragma once

#include <cstdint>

#include "launch/program/training_program.h"

namespace recollect {

// Of a differentiated graph of several tensor ranks. `device`: as the configuration describes it.
void decide_pieces(const Config& config, const DeviceModel& device, ModelGraph& built);

// The program has that many pieces: of a longer batch, or of this one. Says so where there are any.
void note_pieces(const Config& config, int64_t pieces, TrainingProgram& training);

}  // namespace recollect
