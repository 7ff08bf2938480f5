// Optimizer states that are kept elsewhere (optimizer.offload), as a run has them.
#pragma once

#include <memory>

#include "launch/program/training_program.h"

namespace recollect {

// The file of a rank's states, or that of the program which the run has already; null where none is on the disk. Not open
// yet.
std::shared_ptr<DiskStore> state_store(const Config& config, const TakenOver& taken_over);

// Says what is kept elsewhere, where the optimizer is part of the program.
void remark_on_offload(const Config& config, TrainingProgram& training);

}  // namespace recollect
