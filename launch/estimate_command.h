// `recollect estimate`: prints what estimate.h foretells.
#pragma once

#include "launch/commands.h"

namespace recollect {

// Error kDeviceMemory, after printing, where device.memory_limit is exceeded.
void estimate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
