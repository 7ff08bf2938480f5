// The files and the remarks of offloaded optimizer states (optimizer.offload).
#pragma once

#include <memory>

#include "launch/program/training_program.h"

namespace recollect {

// The file of a rank's states, or that of an earlier program of the run; null if no state is on the disk. It
// is not open yet.
std::shared_ptr<DiskStore> state_store(const Config& config, const TakenOver& taken_over);

// Adds a remark on the offloaded states if the optimizer is part of `graph`. If the host updates them, it
// compares the times of both ways by the device model.
void remark_on_offload(const Config& config, const Graph& graph, TrainingProgram& training);

}  // namespace recollect
