// `recollect estimate`: prints what estimate.h predicts.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable estimate_options();
// Error kDeviceMemory, after printing, where device.memory_limit is exceeded.
void estimate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
