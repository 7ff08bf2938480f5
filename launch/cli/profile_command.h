// `recollect profile`: trains a few steps and tells where the time of one went. Writes nothing but what it is asked for.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable profile_options();
void profile_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
