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
#include "engine/runtime/first_fit.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

struct Use {
  std::vector<OpId> last;        // by value: the last op that touches it; kNone if none does
  std::vector<char> one_stream;  // by value: all its ops run on the compute stream
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

// An output takes over the storage of an input that the op kind allows, of equal size, that dies there.
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
          b.group != kNone || aligned(a.bytes()) != aligned(b.bytes()))
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

static_assert(static_cast<int>(Category::kInput) == kCategoryCount - 1, "only inputs depend on the batch");

// Persistent values of a space by category; there the groups in their order, then all other values in theirs.
uint64_t place_persistent(const Graph& graph, MemorySpace space, Layout& layout, MemoryLedger::Row& row) {
  std::vector<ValueId> order;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values().size()); ++v)
    if (persists(graph.value(v)) && graph.value(v).space == space) order.push_back(v);
  const auto rank = [&](ValueId v) {
    const Value& value = graph.value(v);
    return std::tuple(value.category, value.group == kNone, value.group);
  };
  std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) { return rank(a) < rank(b); });
  std::vector<uint64_t> begin(graph.values().size(), 0);  // by value that stands for a piece
  uint64_t offset = 0;
  for (ValueId v : order) {
    const Piece piece = piece_of(graph, v);
    if (piece.first != v) continue;
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

// Greedy: blocks in the given order, each at the lowest offset free during its life. Returns the height
// reached.
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

// Large blocks first, or long lives first: neither is always best, so take the lower.
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

// Blocks that are held now, and the gaps between them.
class Pool {
 public:
  // The smallest gap that holds it, the lowest of those; the pool's end where there is none.
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

  // Leaves a gap, joined with the free neighbours.
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

// What an allocator that knows nothing of the future does: each block takes its place when it begins and
// leaves it when it ends. Returns the pool's size.
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

// Offsets are sums of these.
void check_sum(const std::vector<Block>& blocks, uint64_t sum) {
  for (const Block& block : blocks) sum = checked_sum(sum, block.bytes, "the size of all values of a step");
}

}  // namespace

Layout make_layout(const Graph& graph, const Schedule& schedule, const std::vector<uint64_t>& workspaces) {
  Layout layout;
  layout.value_offsets.assign(graph.values().size(), 0);
  layout.workspace_offsets.assign(graph.ops().size(), 0);
  layout.storage = share_storage(graph, find_uses(graph));
  MemoryLedger::Row persistent{}, of_host{};
  layout.ledger.persistent_bytes = place_persistent(graph, MemorySpace::kDevice, layout, persistent);
  const uint64_t host_persistent = place_persistent(graph, MemorySpace::kHost, layout, of_host);

  const std::vector<Span> spans = op_spans(graph, schedule);
  auto [blocks, block_of, workspace_block] = find_blocks(graph, spans, layout.storage, workspaces);
  check_sum(blocks, layout.ledger.persistent_bytes);
  const uint64_t planned = place_best(blocks, MemorySpace::kDevice);
  layout.ledger.transient_bytes = planned + place_pooled(blocks);
  for (Block& block : blocks)
    if (block.pooled) block.offset += planned;
  layout.ledger.host_bytes = host_persistent + place_best(blocks, MemorySpace::kHost);
  layout.ledger.disk_bytes = place_best(blocks, MemorySpace::kDisk);
  find_peaks(graph, persistent, blocks, layout.ledger);

  // Transient values stand above the persistent ones of their space: device, host, disk.
  const uint64_t bases[] = {layout.ledger.persistent_bytes, host_persistent, 0};
  for (std::size_t v = 0; v < block_of.size(); ++v) {
    const Piece piece = piece_of(graph, layout.storage[v]);
    if (const int index = block_of[piece.first];
        index >= 0 && !persists(graph.value(static_cast<ValueId>(v))))
      layout.value_offsets[v] =
          bases[static_cast<int>(blocks[index].space)] + blocks[index].offset + piece.offset;
  }
  for (std::size_t op = 0; op < workspace_block.size(); ++op)
    if (workspace_block[op] >= 0)
      layout.workspace_offsets[op] = bases[0] + blocks[workspace_block[op]].offset;
  return layout;
}

}  // namespace recollect
