// The optimizer phase of a program: loss over the data ranks, global gradient norm, clipping, one update per
// parameter.
#pragma once

#include <memory>
#include <vector>

#include "engine/graph/op_def.h"
#include "parallel/optimizers/rule.h"
#include "parallel/parameter.h"

namespace recollect {

struct OptimizerHandles {
  std::unique_ptr<const OptimizerRule> rule;  // null where nothing is trained
  ValueId schedule = kNone;                   // input [n] f64: the rule's scalars
  ValueId total_loss = kNone;                 // [1] f64, over all data ranks
  ValueId norm = kNone;                       // [1] f64, of all gradients before clipping
  ValueId loss_scale = kNone;                 // input [1] f64, where there is one
  OffloadReport offload = {};                 // of states that are kept elsewhere
};

// Where a rank stands on the axes of the mesh.
struct RankPlace {
  int data = 0, tensor = 0;
};

// Fills in the parameters' masters and states. Those without a gradient are frozen: they are their own masters. Where
// parameters are divided over the data ranks, each rank updates its parts, and gathers the others' while it updates the
// next ones. Error kConfiguration where states are to be kept elsewhere and none can be.
OptimizerHandles append_optimizer(Graph& graph, const OpRegistry& registry,
                                  std::vector<Parameter>& parameters, ValueId loss,
                                  const OptimizerSettings& settings, int data_size, int tensor_size,
                                  const RankPlace& rank = {});

}  // namespace recollect
