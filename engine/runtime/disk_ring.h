// The buffer that requests to files on the disk pass through: one value of a graph, in host memory, for all its ops that
// write or read one, since they run one after the other on the disk's stream.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace recollect {

inline constexpr std::string_view kDiskRing = "disk/ring";

// Adds it where the graph has none yet.
ValueId disk_ring(Graph& graph);

}  // namespace recollect
