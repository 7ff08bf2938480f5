// Checks that all ranks of a run have the same configuration. Each rank has read its own copy.
#pragma once

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Collective. Throws kRanksDisagree on every rank if any key differs on any rank; the error names the keys,
// their values and the ranks that have them. No key may differ.
void check_ranks_agree(const Config& config, Communicator& communicator);

}  // namespace recollect
