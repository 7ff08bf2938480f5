// The smallest choices of a plan: values that one op makes in a layer, all of them or a part. The same choices exist in every
// layer. Values made outside of layers count as the first layer's.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpointing/planner/candidates.h"

namespace recollect {

struct LayerUnit {
  std::vector<std::vector<int>> layers;  // by layer: places among the saved activations
  uint64_t bytes = 0;                    // of a layer
  bool is_cut = false;                   // as large as a layer's input: recomputation may begin there

  bool is_outside = false;  // of layers: there is one, which stands with the first layer

  bool is_in(const DraftPlan& plan, std::size_t layer) const;
  void set(std::size_t layer, bool save, DraftPlan& plan) const;
};

// Three units of each op: all its values, its statistics alone, and all but the statistics.
std::vector<LayerUnit> make_units(const Surroundings& of);

// Mode full without the inputs of layers, but for the first one's.
DraftPlan without_inputs(const Surroundings& of);

}  // namespace recollect
