// The ledger says which category holds how many bytes. For each phase it has the bytes of every category at
// the moment of that phase's peak; the categories of a row sum to that peak exactly. Rows and peaks count
// device memory. Sizes are rounded up to 64 bytes, as the arena allocates them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/graph/graph.h"

namespace recollect {

// By memory space: the offset in its arena where persistent values end and the transient region begins.
using TransientBegin = std::array<uint64_t, kMemorySpaceCount>;

struct MemoryLedger {
  using Row = std::array<uint64_t, kCategoryCount>;

  std::array<Row, kPhaseCount> at_peak{};        // [phase][category]
  std::array<std::string, kPhaseCount> peak_op;  // the op that runs at the peak
  Row loaded{};                   // [category], after the model is loaded and before the first step
  uint64_t persistent_bytes = 0;  // parameters, gradients, optimizer, input
  uint64_t transient_bytes = 0;   // the region that all other values share
  uint64_t pooled_bytes = 0;      // part of the transient region: the pool of the run-time allocator
  uint64_t pooled_peak = 0;       // the most bytes of the pool in use at once; the rest is fragmentation
  uint64_t host_bytes = 0;        // the arena in host memory
  uint64_t host_saved_bytes = 0;  // the part of it that saved activations need
  uint64_t disk_bytes = 0;        // the file on the disk
  uint64_t disk_state_bytes = 0;  // the file of persistent values on the disk
  uint64_t arena_bytes() const { return persistent_bytes + transient_bytes; }

  static uint64_t sum(const Row& row);
  uint64_t peak() const;  // the largest phase; arena_bytes() minus this is fragmentation
  bool operator==(const MemoryLedger&) const = default;
};

}  // namespace recollect
