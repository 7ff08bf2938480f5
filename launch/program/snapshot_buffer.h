// Host memory beside the arenas in which a rank's part of a snapshot waits for the thread that writes it.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

// Bytes that ranks of the world reserve, `ranks` of them from `first_rank` on: each about as much, but not the same. 0
// where no snapshot is saved.
uint64_t snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph, const Mesh& mesh,
                               int first_rank, int ranks = 1);
// Of the rank of the world that reserves most.
uint64_t most_snapshot_buffer_bytes(const Config& config, const Model& model, const Graph& graph,
                                    const Mesh& mesh);

}  // namespace recollect
