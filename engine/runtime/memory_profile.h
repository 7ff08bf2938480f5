// The memory profile lists what a program holds at every moment of a step, by category and memory space. It
// is the curve whose peaks are in the ledger. Moments are ticks of the compute stream's clock (schedule.h),
// so the curve can be drawn over a measured or a simulated timeline.
#pragma once

#include <array>
#include <vector>

#include "engine/runtime/lifetime.h"
#include "engine/runtime/program.h"

namespace recollect {

struct MemoryProfile {
  std::array<MemoryLedger::Row, kMemorySpaceCount> persistent{};  // held at every tick
  std::vector<MemoryChange> changes;                              // all other values, by tick
  bool operator==(const MemoryProfile&) const = default;
};

MemoryProfile memory_profile(const Program& program);

}  // namespace recollect
