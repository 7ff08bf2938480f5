// Who holds the bytes, and when. For each phase, the bytes of every category at the moment of that phase's
// peak; the categories of a row sum to that peak exactly. Rows and peaks are of the device. Sizes are those
// the arena gives out: rounded up to 64 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/graph/graph.h"

namespace recollect {

// By memory space: where in its arena what persists ends.
using TransientBegin = std::array<uint64_t, kMemorySpaceCount>;

struct MemoryLedger {
  using Row = std::array<uint64_t, kCategoryCount>;

  std::array<Row, kPhaseCount> at_peak{};        // [phase][category]
  std::array<std::string, kPhaseCount> peak_op;  // the op that runs at the peak
  Row loaded{};                                  // [category], when the model is loaded and no step has run
  uint64_t persistent_bytes = 0;                 // parameters, gradients, optimizer, input
  uint64_t transient_bytes = 0;                  // the region that everything else shares
  uint64_t pooled_bytes = 0;                     // of the transient region: what the run-time allocator takes
  uint64_t pooled_peak = 0;       // the most of it that is in use at once; the rest is fragmentation
  uint64_t host_bytes = 0;        // the arena in host memory
  uint64_t host_saved_bytes = 0;  // of it, the part that saved activations need
  uint64_t disk_bytes = 0;        // the file on the disk
  uint64_t disk_state_bytes = 0;  // the file of what persists there
  uint64_t arena_bytes() const { return persistent_bytes + transient_bytes; }

  static uint64_t sum(const Row& row);
  uint64_t peak() const;  // over the phases: what is really held; arena_bytes() minus this is fragmentation
  bool operator==(const MemoryLedger&) const = default;
};

}  // namespace recollect
