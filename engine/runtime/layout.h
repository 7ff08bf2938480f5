// Where every value of a program lives. Persistent values stand side by side, by category, those of groups
// first; inputs come last, and in the host's memory the disk's buffer, which not every plan needs, so that programs of
// one model for other shapes of batch have all the rest at the same places. On the disk they have a file of their own.
// All others share one transient region: an offset each, chosen from lifetimes, so that no two values that live at the
// same time overlap. The members of a group are one piece in either.
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
  std::vector<ValueId> storage;             // by value: the value whose bytes it takes over (itself, if none)
  TransientBegin transient_begin{};
  MemoryLedger ledger;  // what this layout predicts
};

// `workspaces`: bytes that the kernel of each op asks for. `larger`: the layout of the same ops on larger values,
// which this one exceeds nowhere; where places of its own would, it has those of the larger one. Of other ops it is without
// effect.
Layout make_layout(const Graph& graph, const Schedule& schedule, const std::vector<uint64_t>& workspaces,
                   const Layout* larger = nullptr);

}  // namespace recollect
