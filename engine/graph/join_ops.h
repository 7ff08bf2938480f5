// join_ops() replaces two consecutive ops by one that does both in a single pass over memory, where the first
// op's kind names such a joined kind (OpDef::joint). The joined op has the inputs, outputs and attributes of
// both, but the value between the two is no longer an input. An op that only passes that value on to ranks
// which hold it already may stand between the two; it comes after the joined op then. Bits, values and what
// is saved of them stay the same. So this runs after all passes that look at single ops.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

void join_ops(Graph& graph, const OpRegistry& registry);

// join_sums() removes an op that sums a value if a later op reads the same value and can make the sums too
// (OpDef::sums_too). The sums may have other bits then. So this runs right after differentiate(), when
// nothing depends yet on what is saved or recomputed: all plans of a graph have the same gradient ops. Sums
// that are replicated over ranks are not joined to an op whose own output is sharded: the algorithm that a
// library chooses for a shard does not promise that the replicas stay equal.
void join_sums(Graph& graph);

}  // namespace recollect
