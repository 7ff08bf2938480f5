// The command `recollect top`: shows a run with its ranks side by side on a terminal, from the files that the
// run writes.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

// If the output is not a terminal, or a dumb one, it prints the current state and returns. Throws kInput if
// the folder holds no run.
void top_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
