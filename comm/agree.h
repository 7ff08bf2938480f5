// What must be the same on all ranks is compared as texts by name.
#pragma once

#include <map>
#include <string>

#include "comm/communicator.h"

namespace recollect {

// Collective. Error kRanksDisagree on every rank where any text differs on any rank, naming the texts, what
// they say and the ranks that have them; `what` names them all in the message ("configurations").
void check_texts_agree(const std::map<std::string, std::string>& texts, const std::string& what,
                       const std::string& hint, Communicator& communicator);

// Collective. A text that rank `root` knows, on all ranks.
std::string broadcast_text(std::string text, int root, Communicator& communicator);

}  // namespace recollect
