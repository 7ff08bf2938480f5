// Gathers one text from every rank on every rank, in rank order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace recollect {

// Collective.
std::vector<std::string> gather_texts(const std::string& mine, Communicator& communicator);
// The same if every rank already knows the size of each text.
std::vector<std::string> gather_texts(const std::string& mine, const std::vector<int64_t>& sizes,
                                      Communicator& communicator);

}  // namespace recollect
