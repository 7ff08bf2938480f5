// `recollect top`: a run as it goes on, on a terminal: its ranks side by side, from the files that it writes.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

// On what is no terminal, or a dumb one, it prints what is known now and returns. Error kInput where the folder holds no run.
void top_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
