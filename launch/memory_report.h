// What a rank's memory was foretold to be and what it was: `memory.rankN.json` in the output folder (bytes), and one
// table of all ranks on the terminal (MiB).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"

namespace recollect {

struct MemoryReport {
  MemoryLedger foretold;
  MemoryLedger measured;
  uint64_t communication_buffers = 0;  // of the communicators, outside the arenas
  std::vector<std::pair<std::string, std::string>> checkpointing;  // switch -> what it saved, moved and cost on this rank
};

std::string memory_json(const MemoryReport& report, int rank);
// Collective over the world; the text is whole on rank 0 and empty elsewhere.
std::string memory_table(const MemoryReport& report, Communicator& world);

}  // namespace recollect
