// All ranks of a run must have the same configuration; each has read it for itself.
#pragma once

#include <map>
#include <string>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Collective. Throws Error kRanksDisagree on every rank where any key differs on any rank, naming the keys,
// their values and the ranks that have them. No key may differ.
void check_ranks_agree(const Config& config, Communicator& communicator);

// The same for any texts by name; `what` names them in the message ("configurations").
void check_texts_agree(const std::map<std::string, std::string>& texts, const std::string& what,
                       const std::string& hint, Communicator& communicator);

}  // namespace recollect
