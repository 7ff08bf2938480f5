// `recollect config`: a configuration and its keys, for people and for editors. Trains nothing and reads no
// data.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

void config_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
