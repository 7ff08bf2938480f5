// Two ops that stand behind each other become one that does both in one pass over memory, where op kinds say that there
// is such a kind (OpDef::joint): its inputs and outputs are those of both, one after the other, without the value in
// between as an input; its attributes are those of both. Bits, values and what is saved of them stay the same. So this
// comes behind all passes that look at single ops.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

void join_ops(Graph& graph, const OpRegistry& registry);

}  // namespace recollect
