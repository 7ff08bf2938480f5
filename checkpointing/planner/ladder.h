// The plans between recomputing whole layers and saving everything, one behind the other: each saves what the one
// before it saves and one value more, or a few that only help together. What spares the most recomputation for
// its bytes comes first, and of like layers the last, whose values are held for the shortest time. A ladder does
// not depend on a budget.
#pragma once

#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"

namespace recollect {

struct Rung {
  std::vector<ValueId> values;  // to be saved beside those of the rungs before
  int layer = -1;
  double seconds = 0;  // of recomputation that it spares
  uint64_t bytes = 0;  // as a layout counts them
};

// A name without its layer: "mlp/fc1" of "layer3/mlp/fc1".
std::string behind_layer(const std::string& name);

// Of the values that are made in layers.
std::vector<Rung> make_ladder(const Graph& graph, const SavedActivations& saved, const DeviceModel& device);

}  // namespace recollect
