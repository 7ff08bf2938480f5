// Places values in four steps: persistent values side by side; outputs over inputs that die (share_storage);
// transient blocks by first fit (place_best); pooled blocks as a run-time allocator would place them
// (place_pooled).
#include "engine/runtime/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "engine/core/arena.h"
#include "engine/core/checked.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/disk_ring.h"
#include "engine/runtime/first_fit.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

struct Use {
  std::vector<OpId> last;        // by value: the last op that uses it; kNone if none does
  std::vector<char> one_stream;  // by value: 1 if all ops that use it run on the compute stream
};

Use find_uses(const Graph& graph) {
  Use use{std::vector<OpId>(graph.values().size(), kNone), std::vector<char>(graph.values().size(), 1)};
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    const Op& op = graph.op(id);
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId v : *list) {
        if (v == kNone) continue;
        use.last[v] = id;
        if (op.stream != StreamId::kCompute) use.one_stream[v] = 0;
      }
  }
  return use;
}

// An output reuses the storage of an input if the op kind allows it, both have the same size, and the op is
// the input's last use. All ops of both must run on the compute stream: program order then proves that the
// input is dead.
std::vector<ValueId> share_storage(const Graph& graph, const Use& use) {
  std::vector<ValueId> storage(graph.values().size());
  std::iota(storage.begin(), storage.end(), 0);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    const Op& op = graph.op(id);
    if (op.stream != StreamId::kCompute) continue;
    std::vector<ValueId> taken;
    for (const auto& [o, i] : op.def->in_place) {
      if (o >= static_cast<int>(op.outputs.size()) || i >= static_cast<int>(op.inputs.size())) continue;
      const ValueId out = op.outputs[o], in = op.inputs[i];
      if (out == kNone || in == kNone || storage[out] != out) continue;
      const Value &a = graph.value(in), &b = graph.value(out);
      if (a.space != b.space || a.pooled != b.pooled || persists(a) || persists(b) || a.group != kNone ||
          b.group != kNone || a.part_of != kNone || b.part_of != kNone ||
          aligned(a.bytes()) != aligned(b.bytes()))
        continue;
      const bool twice = std::count(op.inputs.begin(), op.inputs.end(), in) > 1;
      if (use.last[in] != id || twice || !use.one_stream[in] || !use.one_stream[out]) continue;
      if (std::find(taken.begin(), taken.end(), in) != taken.end()) continue;
      taken.push_back(in);
      storage[out] = storage[in];
    }
  }
  return storage;
}

// Places the persistent values of a space one after another, by category. Inputs come last, because only they
// depend on the batch. Within a category the groups come first, in their order, then all other values in
// theirs. The disk ring begins at a multiple of the disk's block size. Adds the sizes to `row` and returns
// the end.
uint64_t place_persistent(const Graph& graph, MemorySpace space, Layout& layout, MemoryLedger::Row& row) {
  std::vector<ValueId> order;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values().size()); ++v)
    if (persists(graph.value(v)) && graph.value(v).space == space) order.push_back(v);
  const auto rank = [&](ValueId v) {
    const Value& value = graph.value(v);
    return std::tuple(value.category == Category::kInput, value.category, value.group == kNone, value.group);
  };
  std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) { return rank(a) < rank(b); });
  std::vector<uint64_t> begin(graph.values().size(), 0);  // by value that stands for a piece
  uint64_t offset = 0;
  for (ValueId v : order) {
    const Piece piece = piece_of(graph, v);
    if (piece.first != v) continue;
    if (graph.value(v).name == kDiskRing) offset = block_bytes(offset, MemorySpace::kDisk);
    begin[v] = offset;
    row[static_cast<int>(graph.value(v).category)] += piece.bytes;
    offset = checked_sum(offset, piece.bytes, "the size of all persistent values");
  }
  for (ValueId v : order) {
    const Piece piece = piece_of(graph, v);
    layout.value_offsets[v] = begin[piece.first] + piece.offset;
  }
  return offset;
}

// Greedy: takes the blocks in the given order and puts each at the lowest offset that is free during its
// lifetime. Returns the height reached, in bytes.
uint64_t place(std::vector<Block>& blocks, const std::vector<int>& order) {
  std::vector<int64_t> moments;
  for (int index : order) {
    moments.push_back(blocks[index].begin);
    moments.push_back(blocks[index].end);
  }
  FirstFit places(std::move(moments));
  uint64_t height = 0;
  for (int index : order) {
    Block& block = blocks[index];
    block.offset = places.place(block.begin, block.end, block.bytes);
    height = std::max(height, block.offset + block.bytes);
  }
  return height;
}

// Places the blocks of a space largest first and then longest-lived first, and keeps the lower result.
// Neither order is always better.
uint64_t place_best(std::vector<Block>& blocks, MemorySpace space) {
  std::vector<int> by_size;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].space == space && !blocks[i].pooled) by_size.push_back(static_cast<int>(i));
  std::vector<int> by_life = by_size;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });
  const auto life = [&](int i) {
    return blocks[i].end == kForever ? kForever : blocks[i].end - blocks[i].begin;
  };
  std::stable_sort(by_life.begin(), by_life.end(), [&](int a, int b) { return life(a) > life(b); });
  std::vector<Block> other = blocks;
  const uint64_t size_height = place(blocks, by_size), life_height = place(other, by_life);
  if (life_height < size_height) blocks = std::move(other);
  return std::min(size_height, life_height);
}

// A best-fit allocator: the blocks held now, and the gaps between them.
class Pool {
 public:
  // Takes the smallest gap that is large enough, the lowest of equal ones, or the pool's end if there is
  // none.
  uint64_t take(uint64_t bytes) {
    uint64_t offset = end();
    if (const auto gap = gaps_.lower_bound({bytes, 0}); gap != gaps_.end()) {
      const auto [size, begin] = *gap;
      gaps_.erase(gap);
      offset = begin;
      add_gap(begin + bytes, begin + size);
    }
    held_[offset] = offset + bytes;
    return offset;
  }

  // Frees the block and joins its gap with free neighbours.
  void give_back(uint64_t offset) {
    const auto block = held_.find(offset);
    const uint64_t before = block == held_.begin() ? 0 : std::prev(block)->second;
    gaps_.erase({offset - before, before});
    if (const auto next = std::next(block); next != held_.end()) {
      gaps_.erase({next->first - block->second, block->second});
      add_gap(before, next->first);
    }
    held_.erase(block);
  }

  uint64_t end() const { return held_.empty() ? 0 : held_.rbegin()->second; }

 private:
  void add_gap(uint64_t begin, uint64_t end) {
    if (begin < end) gaps_.insert({end - begin, begin});
  }

  std::map<uint64_t, uint64_t> held_;             // begin -> end
  std::set<std::pair<uint64_t, uint64_t>> gaps_;  // size, begin
};

// Simulates an allocator that does not know the future: it allocates each block when its lifetime begins and
// frees it when it ends. Returns the pool's size in bytes.
uint64_t place_pooled(std::vector<Block>& blocks) {
  std::vector<int> arrivals, departures;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].pooled) arrivals.push_back(static_cast<int>(i));
  departures = arrivals;
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [&](int a, int b) { return blocks[a].begin < blocks[b].begin; });
  std::stable_sort(departures.begin(), departures.end(),
                   [&](int a, int b) { return blocks[a].end < blocks[b].end; });
  Pool pool;
  uint64_t size = 0;
  auto leaving = departures.begin();
  for (int index : arrivals) {
    Block& block = blocks[index];
    for (; blocks[*leaving].end < block.begin; ++leaving) pool.give_back(blocks[*leaving].offset);
    block.offset = pool.take(block.bytes);
    size = std::max(size, pool.end());
  }
  return size;
}

// Checks that no offset can overflow: every offset is a sum of some of these sizes.
void check_sum(const std::vector<Block>& blocks, uint64_t sum) {
  for (const Block& block : blocks) sum = checked_sum(sum, block.bytes, "the size of all values of a step");
}

// The transient part of a layout: placed blocks, and the height of the region in each space.
struct Places {
  TransientBlocks transient;
  std::array<uint64_t, kMemorySpaceCount> heights{};  // by space

  std::vector<Block>& blocks() { return transient.blocks; }
  uint64_t& height(MemorySpace space) { return heights[static_cast<std::size_t>(space)]; }
};

Places place_all(TransientBlocks found) {
  Places places{.transient = std::move(found)};
  std::vector<Block>& blocks = places.blocks();
  const uint64_t planned = place_best(blocks, MemorySpace::kDevice);
  places.height(MemorySpace::kDevice) = planned + place_pooled(blocks);
  for (Block& block : blocks)
    if (block.pooled) block.offset += planned;
  for (const MemorySpace space : {MemorySpace::kHost, MemorySpace::kDisk})
    places.height(space) = place_best(blocks, space);
  return places;
}

// Gives the blocks the offsets that they have in the larger program. Lifetimes are the same, but a workspace
// may be larger here, because a product of fewer rows can ask for more.
Places place_as(const Graph& graph, const Layout& larger, TransientBlocks found) {
  Places places{.transient = std::move(found)};
  const auto take = [&](int index, uint64_t offset) {
    Block& block = places.blocks()[static_cast<std::size_t>(index)];
    block.offset = offset - larger.transient_begin[static_cast<std::size_t>(block.space)];
    places.height(block.space) = std::max(places.height(block.space), block.offset + block.bytes);
  };
  const TransientBlocks& all = places.transient;
  for (std::size_t v = 0; v < all.of_value.size(); ++v)
    if (all.of_value[v] >= 0)
      take(all.of_value[v], larger.value_offsets[v] - piece_of(graph, static_cast<ValueId>(v)).offset);
  for (std::size_t op = 0; op < all.of_workspace.size(); ++op)
    if (all.of_workspace[op] >= 0) take(all.of_workspace[op], larger.workspace_offsets[op]);
  return places;
}

// Returns true if no two blocks that are live at the same time share a byte.
bool are_apart(const std::vector<Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Block &a = blocks[i], &b = blocks[j];
      if (a.space == b.space && a.overlaps_in_time(b) && a.offset < b.offset + b.bytes &&
          b.offset < a.offset + a.bytes)
        return false;
    }
  return true;
}

uint64_t transient_height(const Layout& layout, MemorySpace space) {
  const MemoryLedger& ledger = layout.ledger;
  const uint64_t whole = space == MemorySpace::kDevice ? ledger.persistent_bytes + ledger.transient_bytes
                         : space == MemorySpace::kHost ? ledger.host_bytes
                                                       : ledger.disk_bytes;
  return whole - layout.transient_begin[static_cast<std::size_t>(space)];
}

bool exceeds(const Places& places, const Layout& other) {
  for (const MemorySpace space : {MemorySpace::kDevice, MemorySpace::kHost, MemorySpace::kDisk})
    if (places.heights[static_cast<std::size_t>(space)] > transient_height(other, space)) return true;
  return false;
}

}  // namespace

Layout make_layout(const Graph& graph, const Schedule& schedule, const std::vector<uint64_t>& workspaces,
                   const Layout* larger) {
  Layout layout;
  layout.value_offsets.assign(graph.values().size(), 0);
  layout.workspace_offsets.assign(graph.ops().size(), 0);
  layout.storage = share_storage(graph, find_uses(graph));
  MemoryLedger::Row persistent{}, elsewhere{};
  layout.ledger.persistent_bytes = place_persistent(graph, MemorySpace::kDevice, layout, persistent);
  layout.ledger.loaded = persistent;
  const uint64_t host_persistent = place_persistent(graph, MemorySpace::kHost, layout, elsewhere);
  layout.ledger.disk_state_bytes = place_persistent(graph, MemorySpace::kDisk, layout, elsewhere);
  layout.transient_begin = {layout.ledger.persistent_bytes, host_persistent, 0};

  const std::vector<Span> spans = op_spans(graph, schedule);
  TransientBlocks found = find_blocks(graph, spans, layout.storage, workspaces);
  check_sum(found.blocks, layout.ledger.persistent_bytes);
  Places places = place_all(std::move(found));
  // A program of few rows may have fewer ops, because a product of few rows is cut into fewer pieces. Its
  // layout then cannot follow the larger one.
  const bool same_ops = larger && larger->storage.size() == layout.storage.size() &&
                        larger->workspace_offsets.size() == layout.workspace_offsets.size();
  if (same_ops && exceeds(places, *larger)) {
    Places alike = place_as(graph, *larger, find_blocks(graph, spans, larger->storage, workspaces));
    if (are_apart(alike.blocks()) && !exceeds(alike, *larger)) {
      layout.storage = larger->storage;
      places = std::move(alike);
    }
  }
  layout.ledger.transient_bytes = places.height(MemorySpace::kDevice);
  layout.ledger.host_bytes = host_persistent + places.height(MemorySpace::kHost);
  for (const Block& block : places.blocks())
    if (is_saved_on_host(block))
      layout.ledger.host_saved_bytes = std::max(layout.ledger.host_saved_bytes, block.offset + block.bytes);
  layout.ledger.disk_bytes = places.height(MemorySpace::kDisk);
  find_peaks(graph, persistent, places.blocks(), layout.ledger);

  // Transient values lie after the persistent values of their space.
  const auto address = [&](int index) {
    const Block& block = places.blocks()[static_cast<std::size_t>(index)];
    return layout.transient_begin[static_cast<std::size_t>(block.space)] + block.offset;
  };
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const Piece piece = piece_of(graph, layout.storage[v]);
    if (const int index = places.transient.of_value[piece.first];
        index >= 0 && !persists(graph.value(static_cast<ValueId>(v))))
      layout.value_offsets[v] = address(index) + piece.offset;
  }
  for (std::size_t op = 0; op < graph.ops().size(); ++op)
    if (const int index = places.transient.of_workspace[op]; index >= 0)
      layout.workspace_offsets[op] = address(index);
  return layout;
}

}  // namespace recollect
