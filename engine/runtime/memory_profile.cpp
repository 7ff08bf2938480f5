#include "engine/runtime/memory_profile.h"

#include <algorithm>
#include <map>

namespace recollect {

MemoryProfile memory_profile(const Program& program) {
  const Graph& graph = program.graph;
  MemoryProfile profile;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values().size()); ++v) {
    const Value& value = graph.value(v);
    if (const Piece piece = piece_of(graph, v); persists(value) && piece.first == v)
      profile.persistent[static_cast<int>(value.space)][static_cast<int>(value.category)] += piece.bytes;
  }
  const TransientBlocks found =
      find_blocks(graph, op_spans(graph, program.schedule), program.layout.storage, program.workspaces);
  // Changes of the same tick, space and category become one; those that cancel out are dropped.
  std::map<std::tuple<int64_t, MemorySpace, Category>, int64_t> sums;
  for (const MemoryChange& change : list_changes(found.blocks, graph.ops().size()))
    sums[{change.tick, change.space, change.category}] += change.bytes;
  for (const auto& [key, bytes] : sums)
    if (bytes != 0) profile.changes.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), bytes});
  return profile;
}

}  // namespace recollect
