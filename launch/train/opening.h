// The first lines of a run: model and ranks, the predicted memory and the available memory, and remarks on
// switches.
#pragma once

#include <string>

#include "launch/config/config.h"
#include "launch/train/session.h"

namespace recollect {

// Collective. "memory: predicted resident 66.46 MiB of 15.64 GiB for 2 ranks; arena 6.20 MiB a rank": the
// total memory of the ranks' processes on the node with the least to spare; on a device "predicted arenas".
std::string memory_line(const Session& session);

// Text of rank 0. `memory` is the result of memory_line(). With logging.verbose it also describes the layout.
std::string opening_text(const Config& config, const Session& session, const std::string& memory);

}  // namespace recollect
