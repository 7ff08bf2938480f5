// What a program holds at every moment of a step, by category and memory space: the whole of the curve whose
// peaks are in the ledger. Moments are ticks of the compute stream's clock (schedule.h), so that the curve
// can be laid over any timeline, a measured or a simulated one.
#pragma once

#include <array>
#include <vector>

#include "engine/runtime/lifetime.h"
#include "engine/runtime/program.h"

namespace recollect {

struct MemoryProfile {
  std::array<MemoryLedger::Row, kMemorySpaceCount> persistent{};  // held at every tick
  std::vector<MemoryChange> changes;                              // of all the rest, by tick
  bool operator==(const MemoryProfile&) const = default;
};

MemoryProfile memory_profile(const Program& program);

}  // namespace recollect
