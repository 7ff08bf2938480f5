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

// What the table of all ranks shows of one.
struct RankMemory {
  MemoryLedger predicted;
  std::optional<MemoryLedger> measured;
  uint64_t communication_buffers = 0;
  double exposed_seconds = 0;  // a step, measured
  uint64_t beside_arena = 0, device_communicators = 0;
  double waiting_seconds = 0;    // for other ranks, a step, measured
  ResidentMemory resident = {};  // of its process
  ReservedMemory reserved = {};
};
RankMemory memory_of(const RankReport& report);
// Collective over the world; without the names of peaks.
std::vector<RankMemory> gather_memory(const RankMemory& mine, Communicator& world);

// Who stands out among several, and by how much.
std::string outliers_text(std::span<const RankMemory> ranks);
// All ranks side by side, at each one's highest phase, and who stands out.
std::string ranks_table(std::span<const RankMemory> ranks);
// All that a rank can say by itself, but for its profile's tables.
std::string rank_text(const RankReport& report);

// The rank whose number is furthest from the median; none where all are alike.
std::optional<std::size_t> outlier(std::span<const double> numbers);
double median(std::span<const double> numbers);

}  // namespace recollect
