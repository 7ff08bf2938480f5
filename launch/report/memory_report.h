// What a rank's memory was foretold to be and what it was: `memory.rankN.json` in the output folder (bytes),
// and tables on the terminal (MiB): one of all ranks, and one rank's by category and phase, with what
// checkpointing bought and cost.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"
#include "launch/config/config.h"
#include "launch/report/step_report.h"

namespace recollect {

struct MemoryReport {
  int rank = 0;
  MemoryLedger foretold;
  MemoryLedger measured;
  uint64_t communication_buffers = 0;  // of the communicators, outside the arenas
  std::vector<std::pair<std::string, std::string>>
      checkpointing;  // switch -> what it saved, moved and cost on this rank
  StepReport step;
};

// Bytes by phase and category, the peaks, and what is reserved.
nlohmann::ordered_json ledger_json(const MemoryLedger& ledger);
// Categories by phase, as they stand at the peak of each phase; where something was measured, beside what was
// foretold.
std::string phase_table(const std::string& title, const MemoryLedger& foretold,
                        const MemoryLedger* measured = nullptr);
std::string memory_json(const MemoryReport& report);
// All that a rank can say by itself.
std::string rank_text(const MemoryReport& report);
// Collective over the world; the text is whole on rank 0 and empty elsewhere.
std::string memory_table(const MemoryReport& report, Communicator& world);

// Error kDeviceMemory where a rank needs more than device.memory_limit, kStorage where it needs more of the
// disk than activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& foretold);

}  // namespace recollect
