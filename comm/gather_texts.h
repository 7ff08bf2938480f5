// Every rank's text on every rank, in the order of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace recollect {

// Collective.
std::vector<std::string> gather_texts(const std::string& mine, Communicator& communicator);
// Where every rank knows already how long each text is.
std::vector<std::string> gather_texts(const std::string& mine, const std::vector<int64_t>& sizes,
                                      Communicator& communicator);

}  // namespace recollect
