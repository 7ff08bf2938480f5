#include "engine/runtime/lifetime.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

namespace recollect {

namespace {

// Measures the pool: how far its blocks reach, and the most bytes in use at once.
void measure_pool(const std::vector<Block>& blocks, MemoryLedger& ledger) {
  uint64_t bottom = ~uint64_t{0}, top = 0;
  // Tick and signed bytes. At equal ticks, what ends sorts before what begins.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const Block& block : blocks) {
    if (!block.pooled) continue;
    bottom = std::min(bottom, block.offset);
    top = std::max(top, block.offset + block.bytes);
    const auto bytes = static_cast<int64_t>(block.bytes);
    changes.emplace_back(block.begin, bytes);
    if (block.end != kForever) changes.emplace_back(block.end + 1, -bytes);
  }
  if (changes.empty()) return;
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, peak = 0;
  for (const auto& [tick, bytes] : changes) peak = std::max(peak, now += bytes);
  ledger.pooled_bytes = top - bottom;
  ledger.pooled_peak = static_cast<uint64_t>(peak);
}

}  // namespace

bool persists(const Value& value) { return value.persistent || value.producer == kNone; }

Piece piece_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.part_of != kNone) {
    Piece piece = piece_of(graph, value.part_of);
    piece.offset += value.part_offset;
    return piece;
  }
  if (value.group == kNone) return {id, block_bytes(value.bytes(), value.space), 0};
  const Group& group = graph.group(value.group);
  return {group.members.front(), group.bytes, group.offsets[graph.place_in_group(id)]};
}

TransientBlocks find_blocks(const Graph& graph, const std::vector<Span>& spans,
                            const std::vector<ValueId>& storage, const std::vector<uint64_t>& workspaces) {
  TransientBlocks found;
  std::vector<Block>& blocks = found.blocks;
  found.of_value.assign(graph.values().size(), -1);
  found.of_workspace.assign(graph.ops().size(), -1);
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId v : *list) {
        if (v == kNone || persists(graph.value(v))) continue;
        const Piece piece = piece_of(graph, storage[v]);
        int& index = found.of_value[piece.first];
        if (index < 0) {
          index = static_cast<int>(blocks.size());
          blocks.push_back({.bytes = piece.bytes,
                            .category = graph.value(v).category,
                            .begin = spans[id].begin,
                            .end = spans[id].end,
                            .space = graph.value(v).space,
                            .pooled = graph.value(v).pooled});
        }
        blocks[index].begin = std::min(blocks[index].begin, spans[id].begin);
        blocks[index].end = std::max(blocks[index].end, spans[id].end);
      }
  }
  for (OpId id : graph.op_ids()) {
    if (workspaces[id] == 0) continue;
    found.of_workspace[id] = static_cast<int>(blocks.size());
    blocks.push_back({.bytes = aligned(workspaces[id]),
                      .category = Category::kWorkspace,
                      .begin = spans[id].begin,
                      .end = spans[id].end});
  }
  return found;
}

std::vector<MemoryChange> list_changes(const std::vector<Block>& blocks, std::size_t ops) {
  const int64_t ticks = 2 * static_cast<int64_t>(ops);
  std::vector<MemoryChange> changes;
  changes.reserve(2 * blocks.size());
  for (const Block& block : blocks) {
    const auto bytes = static_cast<int64_t>(block.bytes);
    changes.push_back({std::max<int64_t>(block.begin, 0), block.space, block.category, bytes});
    if (block.end < ticks - 1) changes.push_back({block.end + 1, block.space, block.category, -bytes});
  }
  std::sort(changes.begin(), changes.end(),
            [](const MemoryChange& a, const MemoryChange& b) { return a.tick < b.tick; });
  return changes;
}

void find_peaks(const Graph& graph, const MemoryLedger::Row& persistent, const std::vector<Block>& blocks,
                MemoryLedger& ledger) {
  measure_pool(blocks, ledger);
  const int64_t ticks = 2 * static_cast<int64_t>(graph.ops().size());
  std::vector<MemoryChange> changes = list_changes(blocks, graph.ops().size());
  std::erase_if(changes, [](const MemoryChange& change) { return change.space != MemorySpace::kDevice; });

  MemoryLedger::Row now = persistent;
  std::size_t next = 0;
  std::array<uint64_t, kPhaseCount> peak{};
  for (int64_t tick = 0; tick < ticks; ++tick) {
    while (next < changes.size() && changes[next].tick == tick) {
      now[static_cast<int>(changes[next].category)] += static_cast<uint64_t>(changes[next].bytes);
      ++next;
    }
    const Op& op = graph.op(static_cast<OpId>(tick / 2));
    const int phase = static_cast<int>(op.phase);
    const uint64_t total = MemoryLedger::sum(now);
    if (total <= peak[phase]) continue;
    peak[phase] = total;
    ledger.at_peak[phase] = now;
    ledger.peak_op[phase] = op.name;
  }
}

namespace {

// Merges blocks that took over each other's storage, and detects overlaps. Blocks are added in the order in
// which they begin. Live blocks never overlap, so a new block is compared with its neighbours only.
class Merging {
 public:
  void add(const Block& block) {
    end_before(block.begin);
    if (block.bytes == 0) return;
    std::map<uint64_t, std::size_t>& live = live_[static_cast<std::size_t>(block.space)];
    auto next = live.upper_bound(block.offset);
    if (next != live.begin() && end_of(merged_[std::prev(next)->second]) > block.offset) --next;
    const bool overlaps = next != live.end() && next->first < end_of(block);
    const std::size_t index = overlaps ? next->second : merged_.size();
    if (overlaps) {
      Block& other = merged_[index];
      require(other.offset == block.offset && other.bytes == block.bytes && other.end == block.begin,
              "two live values overlap in memory");
      other.end = block.end;  // `block` has taken over the storage
    } else {
      live.emplace(block.offset, index);
      merged_.push_back(block);
    }
    ends_.emplace(block.end, index);
  }
  const std::vector<Block>& merged() const { return merged_; }

 private:
  static uint64_t end_of(const Block& block) { return block.offset + block.bytes; }

  void end_before(int64_t tick) {
    for (; !ends_.empty() && ends_.top().first < tick; ends_.pop()) {
      const Block& block = merged_[ends_.top().second];
      if (block.end == ends_.top().first) live_[static_cast<std::size_t>(block.space)].erase(block.offset);
    }
  }

  std::vector<Block> merged_;
  std::map<uint64_t, std::size_t> live_[kMemorySpaceCount];  // by offset
  using End = std::pair<int64_t, std::size_t>;               // outdated if the storage was taken over later
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;
};

}  // namespace

MemoryLedger ledger_of(const Graph& graph, std::vector<Block> blocks, const TransientBegin& transient_begin) {
  MemoryLedger ledger;
  MemoryLedger::Row persistent{};
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  Merging transient;
  const uint64_t device_begin = transient_begin[static_cast<std::size_t>(MemorySpace::kDevice)],
                 host_begin = transient_begin[static_cast<std::size_t>(MemorySpace::kHost)];
  uint64_t top = device_begin;
  for (const Block& block : blocks) {
    const bool device = block.space == MemorySpace::kDevice;
    if (device && block.offset < device_begin) {
      persistent[static_cast<int>(block.category)] += block.bytes;
      continue;
    }
    if (block.of_state_file) {
      ledger.disk_state_bytes = std::max(ledger.disk_state_bytes, block.offset + block.bytes);
      continue;
    }
    uint64_t& height = device                              ? top
                       : block.space == MemorySpace::kHost ? ledger.host_bytes
                                                           : ledger.disk_bytes;
    height = std::max(height, block.offset + block.bytes);
    if (is_saved_on_host(block))
      ledger.host_saved_bytes = std::max(ledger.host_saved_bytes, block.offset + block.bytes - host_begin);
    transient.add(block);
  }
  ledger.loaded = persistent;
  ledger.persistent_bytes = MemoryLedger::sum(persistent);
  ledger.transient_bytes = top - device_begin;
  find_peaks(graph, persistent, transient.merged(), ledger);
  return ledger;
}

}  // namespace recollect
