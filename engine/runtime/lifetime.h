// From blocks of memory with a beginning and an end to the peak of every phase. The plan and the measurement
// share this sum; they differ in where the blocks come from: the one from the graph, the other from the
// kernels' operands.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/arena.h"
#include "engine/graph/graph.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/schedule.h"

namespace recollect {

// What a value takes of its memory space.
constexpr uint64_t block_bytes(uint64_t bytes, MemorySpace space) {
  return space == MemorySpace::kDisk ? (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock : aligned(bytes);
}

struct Block {
  uint64_t bytes = 0;  // rounded up to the alignment of its space
  Category category = Category::kActivation;
  int64_t begin = 0;  // ticks, as Span; inclusive
  int64_t end = 0;
  uint64_t offset = 0;
  MemorySpace space = MemorySpace::kDevice;
  bool pooled = false;
  bool of_state_file = false;  // of what persists on the disk
  bool overlaps_in_time(const Block& other) const { return begin <= other.end && other.begin <= end; }
};

inline bool is_saved_on_host(const Block& block) {
  return block.space == MemorySpace::kHost && block.category == Category::kActivation;
}

// A value that stays from step to step, or that nobody in the graph makes.
bool persists(const Value& value);

// Where a value lies within what the layout places as one piece: itself, the value that it is a part of, or the group.
struct Piece {
  ValueId first = kNone;  // the value that stands for the piece
  uint64_t bytes = 0;     // of the piece, rounded up to the alignment of its space
  uint64_t offset = 0;    // of the value in it
};
Piece piece_of(const Graph& graph, ValueId value);

// The transient blocks of a graph, without places; values that share storage are one, and so is a group.
struct TransientBlocks {
  std::vector<Block> blocks;
  std::vector<int> of_value;  // by value that owns storage, or stands for a group; -1 where it has no block
  std::vector<int> of_workspace;  // by op
};
TransientBlocks find_blocks(const Graph& graph, const std::vector<Span>& spans,
                            const std::vector<ValueId>& storage, const std::vector<uint64_t>& workspaces);

// From this tick on, so many bytes more or less are held.
struct MemoryChange {
  int64_t tick = 0;  // ticks 2i and 2i + 1 both belong to op i; a block counts at every tick of its life
  MemorySpace space = MemorySpace::kDevice;
  Category category = Category::kActivation;
  int64_t bytes = 0;
  bool operator==(const MemoryChange&) const = default;
};
// By tick, of `ops` ops.
std::vector<MemoryChange> list_changes(const std::vector<Block>& blocks, std::size_t ops);

// Fills `ledger.at_peak`, `peak_op` and the pool's figures from the persistent bytes and the placed transient
// blocks.
void find_peaks(const Graph& graph, const MemoryLedger::Row& persistent, const std::vector<Block>& blocks,
                MemoryLedger& ledger);

// The ledger of blocks found in arenas.
// A block that begins exactly where and when another ends has taken its storage over; any other overlap of
// two that live at the same time is Error kInternal.
MemoryLedger ledger_of(const Graph& graph, std::vector<Block> blocks, const TransientBegin& transient_begin);

}  // namespace recollect
