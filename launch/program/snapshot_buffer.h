// Host memory outside of the arenas that holds a rank's part of a snapshot until a thread has written it.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

// The bytes that `ranks` ranks of the world reserve together, from `first_rank` on. Ranks reserve similar,
// but not equal amounts. 0 if no snapshot is saved.
uint64_t snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph, const Mesh& mesh,
                               int first_rank, int ranks = 1);
// The bytes of the rank that reserves the most.
uint64_t most_snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph,
                                    const Mesh& mesh);

}  // namespace recollect
