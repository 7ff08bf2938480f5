// When backward gathers a value again: as soon as the one before it has been used, with half a layer's
// backward to hide behind. So no more than one such value is there whole at a time, besides one that is on
// its way.
#pragma once

#include "engine/graph/graph.h"

namespace recollect {

// To be called where each gather still stands right before the op that wants it. Moves the gathers on the
// gather stream forward in the program; where the part of a gather is recomputed by one op from what is
// there, that op goes with it.
void gather_ahead(Graph& graph);

}  // namespace recollect
