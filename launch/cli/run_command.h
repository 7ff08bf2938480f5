// `recollect run`: starts the ranks of one node, as torchrun does, and ends with the exit code of what ended
// them. However it dies itself, no process that it started stays.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

void run_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
