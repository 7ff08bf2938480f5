// The layout gives every value of a program its place in memory. Each arena begins with the persistent
// values, ordered by category, members of groups before other values. Inputs come last, and in host memory so
// does the disk ring, which not every plan needs; so all programs of one model, whatever their batch shape,
// have the other persistent values at the same offsets. Persistent values on the disk have a file of their
// own. All other values share one transient region: their offsets are chosen from their lifetimes so that no
// two values that are live at the same time overlap. The members of a group are always placed as one
// contiguous piece.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/schedule.h"

namespace recollect {

struct Layout {
  std::vector<uint64_t> value_offsets;      // by value: from the start of the arena of its memory space
  std::vector<uint64_t> workspace_offsets;  // by op
  std::vector<ValueId> storage;             // by value: the value whose storage it reuses (itself, if none)
  TransientBegin transient_begin{};
  MemoryLedger ledger;  // what this layout predicts
};

// `workspaces`: the bytes of workspace that the kernel of each op needs. `larger`: the layout of the same ops
// on larger values. If this layout's own placement needs more memory than `larger`, it takes over the offsets
// of `larger` where they fit. A layout of other ops has no effect.
Layout make_layout(const Graph& graph, const Schedule& schedule, const std::vector<uint64_t>& workspaces,
                   const Layout* larger = nullptr);

}  // namespace recollect
