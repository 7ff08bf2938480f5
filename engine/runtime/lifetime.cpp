#include "engine/runtime/lifetime.h"

#include <algorithm>

namespace recollect {

namespace {

// How far the pooled blocks reach, and how many of their bytes are in use at once at the most.
void measure_pool(const std::vector<Block>& blocks, MemoryLedger& ledger) {
  uint64_t bottom = ~uint64_t{0}, top = 0;
  std::vector<std::pair<int64_t, int64_t>> changes;  // tick, bytes; what ends comes before what begins
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

TransientBlocks find_blocks(const Graph& graph, const std::vector<Span>& spans,
                            const std::vector<ValueId>& storage, const std::vector<uint64_t>& workspaces) {
  TransientBlocks found;
  std::vector<Block>& blocks = found.blocks;
  found.of_value.assign(graph.values().size(), -1);
  found.of_workspace.assign(graph.ops().size(), -1);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    const Op& op = graph.op(id);
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId v : *list) {
        if (v == kNone || persists(graph.value(v))) continue;
        int& index = found.of_value[storage[v]];
        if (index < 0) {
          index = static_cast<int>(blocks.size());
          blocks.push_back({.bytes = block_bytes(graph.value(v).bytes(), graph.value(v).space),
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
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
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

bool overlap_in_memory(const Block& a, const Block& b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Adds a block to those already seen, which began no later.
void merge(std::vector<Block>& merged, const Block& block) {
  Block* taken_over = nullptr;
  for (Block& other : merged) {
    if (!other.overlaps_in_time(block) || !overlap_in_memory(other, block)) continue;
    require(other.offset == block.offset && other.bytes == block.bytes && other.end == block.begin,
            "two live values overlap in memory");
    taken_over = &other;
  }
  if (taken_over)
    taken_over->end = block.end;
  else
    merged.push_back(block);
}

}  // namespace

MemoryLedger ledger_of(const Graph& graph, std::vector<Block> blocks, uint64_t transient_begin) {
  MemoryLedger ledger;
  MemoryLedger::Row persistent{};
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  std::vector<Block> transient;
  uint64_t top = transient_begin;
  for (const Block& block : blocks) {
    const bool device = block.space == MemorySpace::kDevice;
    if (device && block.offset < transient_begin) {
      persistent[static_cast<int>(block.category)] += block.bytes;
      continue;
    }
    uint64_t& height = device                              ? top
                       : block.space == MemorySpace::kHost ? ledger.host_bytes
                                                           : ledger.disk_bytes;
    height = std::max(height, block.offset + block.bytes);
    merge(transient, block);
  }
  ledger.persistent_bytes = MemoryLedger::sum(persistent);
  ledger.transient_bytes = top - transient_begin;
  find_peaks(graph, persistent, transient, ledger);
  return ledger;
}

}  // namespace recollect
