// Two ops that stand behind each other become one that does both in one pass over memory, where op kinds say that there
// is such a kind (OpDef::joint): its inputs and outputs are those of both, one after the other, without the value in
// between as an input; its attributes are those of both. What only hands that value to the ranks, who have it already, may
// stand between the two, and stands behind the one then. Bits, values and what is saved of them stay the same. So this
// comes behind all passes that look at single ops.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

void join_ops(Graph& graph, const OpRegistry& registry);

// An op that can also make the sums that an earlier op makes of a value both read takes them over (OpDef::sums_too), and the
// earlier op goes. Sums may have other bits then. So this comes right behind differentiate(), where nothing depends on what is
// saved or recomputed: all plans of a graph have the same ops of gradients. Sums that ranks hold alike stay where they are if
// the op's own output is a part of each: what a library chooses for parts is no promise that they would stay alike.
void join_sums(Graph& graph);

}  // namespace recollect
