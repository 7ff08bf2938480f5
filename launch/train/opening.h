// The lines with which a run begins: what is trained, what that will take of the memory that is there, and what is remarked
// on switches.
#pragma once

#include <string>

#include "launch/config/config.h"
#include "launch/train/session.h"

namespace recollect {

// Collective. "memory: predicted resident 66.46 MiB of 15.64 GiB for 2 ranks; arena 6.20 MiB a rank": of the node that has
// least to spare, all memory of the ranks' processes; or of the device, "predicted arenas".
std::string memory_line(const Session& session);

// Rank 0's. `memory`: what memory_line() has said. With logging.verbose also all about the layout.
std::string opening_text(const Config& config, const Session& session, const std::string& memory);

}  // namespace recollect
