// `recollect doctor`: whether this machine can train, and what to do where it cannot.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable doctor_options();
// Error kConfiguration after the report where training on the CPU would not work.
void doctor_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
