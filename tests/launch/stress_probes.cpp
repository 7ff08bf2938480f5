#include "tests/launch/stress_probes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "engine/core/arena.h"
#include "engine/runtime/lifetime.h"

namespace recollect::test {

namespace {

struct Life {
  MemorySpace space = MemorySpace::kDevice;
  uint64_t offset = 0, bytes = 0;
  int64_t begin = kForever, end = -1;  // ticks, inclusive
  std::byte* address = nullptr;

  bool touches(const Life& other) const {
    return space == other.space && offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

// Every block of transient memory and the ticks between its first and its last use; values that share storage
// are one, and so are parts and what they lie in.
std::vector<Life> lives(const Executor& executor) {
  const Program& program = executor.program();
  const Graph& graph = program.graph;
  const std::vector<Span> spans = op_spans(graph, program.schedule);
  std::map<ValueId, Life> by_storage;
  for (OpId id : graph.op_ids())
    for (const auto* list : {&graph.op(id).inputs, &graph.op(id).outputs})
      for (ValueId v : *list) {
        if (v == kNone || graph.value(v).persistent || graph.value(v).producer == kNone) continue;
        if (graph.value(v).space == MemorySpace::kDisk) continue;
        const Piece piece = piece_of(graph, program.layout.storage[v]);
        Life& life = by_storage[piece.first];
        life.space = graph.value(v).space;
        life.offset = program.layout.value_offsets[v] - piece.offset;
        life.bytes = piece.bytes;
        life.address = static_cast<std::byte*>(executor.tensor(v).data) - piece.offset;
        life.begin = std::min(life.begin, spans[id].begin);
        life.end = std::max(life.end, spans[id].end);
      }
  std::vector<Life> all;
  for (const auto& [storage, life] : by_storage) all.push_back(life);
  return all;
}

}  // namespace

void StressProbe::prepare(const Executor& executor) {
  const Graph& graph = executor.program().graph;
  const auto count = static_cast<OpId>(graph.ops().size());
  dead_before_.resize(count);
  std::vector<OpId> next_compute(count + 1,
                                 kNone);  // the first op of the compute stream at or after this one
  for (OpId id = count - 1; id >= 0; --id)
    next_compute[id] = graph.op(id).stream == StreamId::kCompute ? id : next_compute[id + 1];
  const std::vector<Life> all = lives(executor);
  for (const Life& dead : all) {
    if (dead.end == kForever || dead.end / 2 + 1 >= count) continue;
    const OpId poisoned_at = next_compute[dead.end / 2 + 1];
    if (poisoned_at == kNone) continue;
    // A side stream may already have begun to write there.
    const bool taken = std::any_of(all.begin(), all.end(), [&](const Life& other) {
      return other.touches(dead) && other.begin > dead.end && other.begin < 2 * int64_t{poisoned_at};
    });
    if (!taken) dead_before_[poisoned_at].push_back({dead.address, dead.bytes});
  }
}

void StressProbe::before_op(const Executor& executor, OpId id) {
  std::call_once(prepared_, [&] { prepare(executor); });
  const Program& program = executor.program();
  if (program.graph.op(id).stream != StreamId::kCompute) be_late(id);
  for (const Dead& dead : dead_before_[id]) {
    std::memset(dead.begin, 0xFF, dead.bytes);
    poisoned_bytes_ += dead.bytes;
  }
  if (program.graph.op(id).stream == StreamId::kDisk) {
    const Tensor ring = executor.tensor(program.graph.op(id).inputs.at(1));
    std::memset(ring.data, 0xFF, ring.bytes());
  }
  if (program.workspaces[id] == 0) return;
  const ValueId any = program.graph.op(id).outputs.at(0);  // workspaces lie in the arena of device values
  if (program.graph.value(any).space != MemorySpace::kDevice) return;
  std::byte* arena = static_cast<std::byte*>(executor.tensor(any).data) - program.layout.value_offsets[any];
  std::memset(arena + program.layout.workspace_offsets[id], 0xFF, program.workspaces[id]);
}

void StressProbe::be_late(OpId id) {
  const uint64_t word =
      (seed_ + 0x9E3779B97F4A7C15u * (++calls_ + static_cast<uint64_t>(id) * 1000)) * 0xBF58476D1CE4E5B9u;
  if (word >> 63) return;
  ++late_ops_;
  std::this_thread::sleep_for(std::chrono::microseconds((word >> 40) % 200));
}

}  // namespace recollect::test
