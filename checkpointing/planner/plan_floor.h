// What no plan takes less than, in seconds, by proof: whatever it saves, wherever that waits, in whatever order it runs
// again what it does not save.
//
// Bytes: where forward is over, each saved value that backward of some layer reads is somewhere: on the device, on the host
// or on the disk, whose budgets are one here. Seconds: of each layer, what makes again what the plan does not save, once,
// where all that other layers make is there. Outputs of one op are saved together, or none of them is: where it runs again,
// it makes all. Any set of a layer's ops may be saved, and a part of a layer may go by one set and the rest by another, so
// that the least is found in one pass over all layers (for knapsacks of choices Sinha and Zoltners, 1979).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpointing/planner/plan_bounds.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"

namespace recollect {

class PlanFloor {
 public:
  // `partition`: whether values may be divided over tensor ranks.
  PlanFloor(const Graph& graph, const SavedActivations& saved, const BoundMaker& bounds, bool partition);

  // Of a micro-batch, without the optimizer, where `bytes` are there beside what persists, of all places that may be used;
  // nothing where no plan is within them.
  std::optional<double> seconds(uint64_t bytes) const;

 private:
  struct Step {
    uint64_t bytes = 0;  // that saving more of a layer takes
    double seconds = 0;  // that it spares
  };

  uint64_t least_bytes_ = 0;
  double most_seconds_ = 0;  // with these
  std::vector<Step> steps_;  // what spares most for its bytes first
};

}  // namespace recollect
