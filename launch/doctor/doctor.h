// The command `recollect doctor`: checks whether this machine can train, and says what to do if it cannot.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable doctor_options();
// Throws kConfiguration after the report if training on the CPU would not work.
void doctor_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
