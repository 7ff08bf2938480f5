// All ranks of a run must have the same configuration; each has read it for itself.
#pragma once

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Collective. Error kRanksDisagree on every rank where any key differs on any rank, naming the keys, their
// values and the ranks that have them. No key may differ.
void check_ranks_agree(const Config& config, Communicator& communicator);

}  // namespace recollect
