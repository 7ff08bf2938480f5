// Computes the peak memory of every phase from blocks, each with a size and a lifetime. Prediction and
// measurement share this code: the prediction takes its blocks from the graph, the measurement from the
// operands of the executed kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/arena.h"
#include "engine/graph/graph.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/schedule.h"

namespace recollect {

// Returns the bytes that a value occupies in its memory space.
constexpr uint64_t block_bytes(uint64_t bytes, MemorySpace space) {
  return space == MemorySpace::kDisk ? (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock : aligned(bytes);
}

struct Block {
  uint64_t bytes = 0;  // rounded up to the alignment of its space
  Category category = Category::kActivation;
  int64_t begin = 0;  // in ticks, as Span; inclusive
  int64_t end = 0;
  uint64_t offset = 0;
  MemorySpace space = MemorySpace::kDevice;
  bool pooled = false;
  bool of_state_file = false;  // part of the file of persistent values on the disk
  bool overlaps_in_time(const Block& other) const { return begin <= other.end && other.begin <= end; }
};

inline bool is_saved_on_host(const Block& block) {
  return block.space == MemorySpace::kHost && block.category == Category::kActivation;
}

// Returns true if the value is kept from step to step, or if no op of the graph produces it.
bool persists(const Value& value);

// Where a value lies within the unit that the layout places: the value itself, the value that it is a part
// of, or its group.
struct Piece {
  ValueId first = kNone;  // the value that represents the piece
  uint64_t bytes = 0;     // size of the piece, rounded up to the alignment of its space
  uint64_t offset = 0;    // offset of the value within the piece
};
Piece piece_of(const Graph& graph, ValueId value);

// The transient blocks of a graph, before they are placed. Values that share storage are one block, and so
// are the members of a group.
struct TransientBlocks {
  std::vector<Block> blocks;
  std::vector<int> of_value;      // by value that owns storage or represents a group; -1 if it has no block
  std::vector<int> of_workspace;  // by op
};
TransientBlocks find_blocks(const Graph& graph, const std::vector<Span>& spans,
                            const std::vector<ValueId>& storage, const std::vector<uint64_t>& workspaces);

// From this tick on, `bytes` more are in use (fewer if negative).
struct MemoryChange {
  int64_t tick = 0;  // ticks 2i and 2i + 1 both belong to op i; a block counts at every tick of its life
  MemorySpace space = MemorySpace::kDevice;
  Category category = Category::kActivation;
  int64_t bytes = 0;
  bool operator==(const MemoryChange&) const = default;
};
// Returns the changes ordered by tick, for a graph of `ops` ops.
std::vector<MemoryChange> list_changes(const std::vector<Block>& blocks, std::size_t ops);

// Fills `ledger.at_peak`, `ledger.peak_op` and the sizes of the pool from the persistent bytes and the placed
// transient blocks.
void find_peaks(const Graph& graph, const MemoryLedger::Row& persistent, const std::vector<Block>& blocks,
                MemoryLedger& ledger);

// Computes the ledger of blocks found in the arenas. A block that begins exactly where and when another one
// ends has taken over its storage. Any other overlap of two blocks that are live at the same time throws
// Error kInternal.
MemoryLedger ledger_of(const Graph& graph, std::vector<Block> blocks, const TransientBegin& transient_begin);

}  // namespace recollect
