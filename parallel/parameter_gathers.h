// Parameters that data ranks hold parts of (data_parts.h, stage 3), whole where ops read them: a layer's are gathered
// together before it is visited, forward, recomputed and backward, and dropped after their last use there.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/op_def.h"
#include "parallel/parameter.h"

namespace recollect {

struct ParameterGathers {
  int data_size = 1;
  int64_t ahead = 1;  // a gather may begin with the visit so many before the one that needs it
};

struct GatheredParameters {
  int64_t gathers = 0;
  uint64_t bytes = 0;  // that a rank receives in a micro-batch
};

// To be called when the program is complete. In program order the gathers are the same on all data ranks whose programs
// differ in the batch alone.
GatheredParameters gather_parameters(Graph& graph, const OpRegistry& registry,
                                     const std::vector<Parameter>& parameters, const ParameterGathers& how);

}  // namespace recollect
