// From blocks of memory with a beginning and an end to the peak of every phase. The plan and the measurement
// share this sum; they differ in where the blocks come from: the one from the graph, the other from the
// kernels' operands.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/arena.h"
#include "engine/graph/graph.h"
#include "engine/io/disk_store.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/schedule.h"

namespace recollect {

// What a value takes of its memory space.
constexpr uint64_t block_bytes(uint64_t bytes, MemorySpace space) {
  constexpr uint64_t kBlock = DiskStore::kBlock;
  return space == MemorySpace::kDisk ? (bytes + kBlock - 1) / kBlock * kBlock : aligned(bytes);
}

struct Block {
  uint64_t bytes = 0;  // rounded up to the alignment of its space
  Category category = Category::kActivation;
  int64_t begin = 0;  // ticks, as Span; inclusive
  int64_t end = 0;
  uint64_t offset = 0;
  MemorySpace space = MemorySpace::kDevice;
  bool pooled = false;
  bool overlaps_in_time(const Block& other) const { return begin <= other.end && other.begin <= end; }
};

// Fills `ledger.at_peak`, `peak_op` and the pool's figures from the persistent bytes and the placed transient
// blocks.
void find_peaks(const Graph& graph, const MemoryLedger::Row& persistent, const std::vector<Block>& blocks,
                MemoryLedger& ledger);

// The ledger of blocks found in arenas of which the device's holds persistent values below `transient_begin`.
// A block that begins exactly where and when another ends has taken its storage over; any other overlap of
// two that live at the same time is Error kInternal.
MemoryLedger ledger_of(const Graph& graph, std::vector<Block> blocks, uint64_t transient_begin);

}  // namespace recollect
