// How ranks tell each other where they run, over their host communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device/placement.h"

namespace recollect::device {

// Collective. Gathers `bytes` from every rank, in rank order.
void gather_records(Communicator& world, const void* mine, void* all, std::size_t bytes);

// Exchanges records between two ranks that pass a tensor: sends `mine` to rank `to` and receives `theirs`
// from rank `from`, at once. A negative rank means no one.
void swap_records(Communicator& world, const void* mine, int to, void* theirs, int from, std::size_t bytes);

// Returns a number that is the same for all processes of one running system that see each other's process
// numbers: those of one node, unless containers separate them.
uint64_t this_node();

// Collective. Returns the places of all ranks. `hardware` is the hardware_id() of this rank's device.
std::vector<RankPlace> gather_places(Communicator& world, const std::string& hardware);

}  // namespace recollect::device
