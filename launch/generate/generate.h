// `recollect generate`: a causal model continues prompts, on one rank or on several tensor ranks.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

void generate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
