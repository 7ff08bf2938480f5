// Into how many pieces the products beside which tensor ranks talk are cut: as the configuration says, or as the simulator
// and the cores of the node have it. Never by what the run has measured: pieces stay those with which it began, and all
// ranks have the same.
#pragma once

#include <cstdint>

#include "launch/program/training_program.h"

namespace recollect {

// Of a differentiated graph of several tensor ranks. `device`: as the configuration describes it.
void decide_pieces(const Config& config, const DeviceModel& device, ModelGraph& built);

// The graph, of half the samples of a micro-batch, becomes that of both halves, and the program's model that of the whole.
// Nothing changes where the halves do not take turns.
void add_second_half(const Config& config, int64_t samples, TrainingProgram& training, Graph& graph);

// The program has that many pieces: of a longer batch, or of this one. Says so where there are any.
void note_pieces(const Config& config, int64_t pieces, TrainingProgram& training);

}  // namespace recollect
