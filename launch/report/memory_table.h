// Tables of ranks for the terminal, in the units and columns of phase_table.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"
#include "launch/report/rank_report.h"

namespace recollect {

// The values of one rank in the table of all ranks.
struct RankMemory {
  MemoryLedger predicted;
  std::optional<MemoryLedger> measured;
  uint64_t communication_buffers = 0;
  double exposed_seconds = 0;  // in a step, measured
  uint64_t beside_arena = 0, device_communicators = 0;
  double waiting_seconds = 0;    // for other ranks in a step, measured
  ResidentMemory resident = {};  // of the rank's process
  ReservedMemory reserved = {};
};
RankMemory memory_of(const RankReport& report);
// Collective over the world. The names of peaks are not transferred.
std::vector<RankMemory> gather_memory(const RankMemory& mine, Communicator& world);

// Names the ranks that differ from the others, and by how much.
std::string outliers_text(std::span<const RankMemory> ranks);
// All ranks side by side, each at its peak, and the ranks that differ from the others.
std::string ranks_table(std::span<const RankMemory> ranks);
// The whole report of one rank, except the tables of its profile.
std::string rank_text(const RankReport& report);

// The rank whose number is furthest from the median; empty if all are equal.
std::optional<std::size_t> outlier(std::span<const double> numbers);
double median(std::span<const double> numbers);

}  // namespace recollect
