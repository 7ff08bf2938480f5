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

void find_peaks(const Graph& graph, const MemoryLedger::Row& persistent, const std::vector<Block>& blocks,
                MemoryLedger& ledger) {
  measure_pool(blocks, ledger);
  // Ticks 2i and 2i + 1 both belong to op i; a block counts at every tick from begin to end.
  const int64_t ticks = 2 * static_cast<int64_t>(graph.ops().size());
  struct Change {
    int64_t tick;
    int category;
    int64_t bytes;
  };
  std::vector<Change> changes;
  changes.reserve(2 * blocks.size());
  for (const Block& block : blocks) {
    if (block.space != MemorySpace::kDevice) continue;
    const auto bytes = static_cast<int64_t>(block.bytes);
    changes.push_back({std::max<int64_t>(block.begin, 0), static_cast<int>(block.category), bytes});
    if (block.end < ticks - 1) changes.push_back({block.end + 1, static_cast<int>(block.category), -bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.tick < b.tick; });

  MemoryLedger::Row now = persistent;
  std::size_t next = 0;
  std::array<uint64_t, kPhaseCount> peak{};
  for (int64_t tick = 0; tick < ticks; ++tick) {
    while (next < changes.size() && changes[next].tick == tick) {
      now[changes[next].category] += static_cast<uint64_t>(changes[next].bytes);
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
