// `recollect calibrate`: measures this machine, in a few seconds, with the kernels that training uses.
#pragma once

#include "checkpointing/device_model.h"
#include "launch/commands.h"

namespace recollect {

// With the calling thread's OpenMP threads; the link is that between two rank threads.
DeviceModel measure_device();

void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
