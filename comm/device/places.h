// What ranks tell each other about where they are, over their host communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device/placement.h"

namespace recollect::device {

// Collective. `bytes` of every rank, in rank order.
void gather_records(Communicator& world, const void* mine, void* all, std::size_t bytes);

// What two ranks that pass a tensor tell each other: `mine` goes to one of them, `theirs` comes from one, at
// once. A negative rank is nobody.
void swap_records(Communicator& world, const void* mine, int to, void* theirs, int from, std::size_t bytes);

// The same for processes of one running system that know each other by the same process numbers: those of one
// node, except where containers keep them apart.
uint64_t this_node();

// Collective: the places of all ranks. `hardware` is what this rank's device calls itself.
std::vector<RankPlace> gather_places(Communicator& world, const std::string& hardware);

}  // namespace recollect::device
