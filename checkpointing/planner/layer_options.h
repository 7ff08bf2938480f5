// A differentiated graph as a chain of layers for the planner's solver: for each layer some ways to treat what its
// backward needs, of which none is better than another in everything.
//
// A way saves the layer's input and what a prefix of the layer's rungs (ladder.h) saves. All of that, the half that frees
// most device bytes for a second of copying, or the input alone may wait somewhere else; the rest is recomputed from there.
// With all saved an input is not that only serves recomputation. Layers that are alike share their ways.
//
// `held` is exact, as a layout counts it, but for values that the simulator keeps on the device in the last layers
// (residency.h); recomputation is exact in the sum of its ops alone. Bytes at work are those of one op at a time.
#pragma once

#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/plan.h"
#include "checkpointing/planner/chain.h"
#include "checkpointing/planner/ladder.h"
#include "checkpointing/planner/plan_bounds.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"

namespace recollect {

// Where saved activations may wait, beside the device.
struct Residences {
  bool partition = false, host = false, disk = false;
};

class LayerOptions {
 public:
  LayerOptions(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
               const Residences& residences, const BoundMaker& bounds, const std::vector<Rung>& ladder);

  const Chain& chain() const { return chain_; }
  // `options`: by layer.
  DraftPlan plan_of(const std::vector<int>& options) const;

 private:
  struct Maker;
  using Decisions = std::vector<Decision>;  // by place among a layer's values

  Chain chain_;
  DraftPlan outside_;                              // what is the same in all plans
  std::vector<std::vector<ValueId>> values_;       // by layer: its input, and what is made in it
  std::vector<std::vector<int>> places_;           // theirs among the saved activations
  std::vector<int> alike_;                         // by layer: the first one with the same text
  std::vector<std::vector<Decisions>> decisions_;  // by layer, where it is the first: by option
};

}  // namespace recollect
