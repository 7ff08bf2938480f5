#include "launch/program/snapshot_buffer.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallel/snapshot/snapshot_saver.h"

namespace recollect {

namespace {

// Bytes by rank of the world, from `first_rank` on; empty if no snapshot is saved.
std::vector<uint64_t> buffers(const Config& config, const Model& model, const Graph& graph, const Mesh& mesh,
                              int first_rank, int ranks) {
  if (!config.saves_snapshots() || config.training.max_steps == 0) return {};
  const StateLayout layout = state_layout(model, graph, mesh);
  std::vector<uint64_t> bytes;
  for (int rank = first_rank; rank < first_rank + ranks; ++rank)
    bytes.push_back(SnapshotSaver::buffer_bytes(layout, rank, config.snapshot.asynchronous));
  return bytes;
}

}  // namespace

uint64_t snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph, const Mesh& mesh,
                               int first_rank, int ranks) {
  const std::vector<uint64_t> bytes = buffers(config, model, graph, mesh, first_rank, ranks);
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

uint64_t most_snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph,
                                    const Mesh& mesh) {
  const std::vector<uint64_t> bytes = buffers(config, model, graph, mesh, 0, mesh.world().size());
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace recollect
