// What a rank's memory was foretold to be and what it was: `memory.rankN.json` in the output folder (bytes), and one
// table of all ranks on the terminal (MiB).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"

namespace recollect {

struct MemoryReport {
  MemoryLedger foretold;
  MemoryLedger measured;
  uint64_t communication_buffers = 0;  // of the communicators, outside the arenas
  std::vector<std::pair<std::string, std::string>> checkpointing;  // switch -> what it saved, moved and cost on this rank
};

// Bytes by phase and category, the peaks, and what is reserved.
nlohmann::ordered_json ledger_json(const MemoryLedger& ledger);
std::string memory_json(const MemoryReport& report, int rank);
// Collective over the world; the text is whole on rank 0 and empty elsewhere.
std::string memory_table(const MemoryReport& report, Communicator& world);

// Error kDeviceMemory where the device needs more than `limit` bytes; 0 is no limit.
void check_memory_limit(uint64_t limit, const MemoryLedger& foretold);

}  // namespace recollect
