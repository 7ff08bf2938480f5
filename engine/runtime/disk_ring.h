// The disk ring is the staging buffer in host memory through which every disk read and write passes. It is
// one value of the graph, shared by all disk ops: they run one after another on the disk's stream, so they
// never use it at the same time.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace recollect {

inline constexpr std::string_view kDiskRing = "disk/ring";

// Returns the graph's ring value; adds it if the graph has none yet.
ValueId disk_ring(Graph& graph);

}  // namespace recollect
