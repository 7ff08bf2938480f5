// Optimizer states that are kept elsewhere (optimizer.offload), as a run has them.
#pragma once

#include <memory>

#include "launch/program/training_program.h"

namespace recollect {

// The file of a rank's states, or that of the program which the run has already; null where none is on the disk. Not open
// yet.
std::shared_ptr<DiskStore> state_store(const Config& config, const TakenOver& taken_over);

// Says what is kept elsewhere, where the optimizer is part of `graph`; and where the host updates it, how long that takes by the
// device model, beside the other way.
void remark_on_offload(const Config& config, const Graph& graph, TrainingProgram& training);

}  // namespace recollect
