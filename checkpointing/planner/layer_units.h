// What a plan may decide about a layer: the values that one op makes there, all of them or a part, the same in every layer. What is
// made outside of layers counts as the first one's.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpointing/planner/candidates.h"

namespace recollect {

struct LayerUnit {
  std::vector<std::vector<int>> layers;  // by layer: places among the saved activations
  uint64_t bytes = 0;                    // of a layer
  bool is_cut = false;                   // as large as a layer's input: recomputation may begin there

  bool is_in(const DraftPlan& plan, std::size_t layer) const;
  void set(std::size_t layer, bool save, DraftPlan& plan) const;
};

// Of an op: all that it makes, its statistics alone, and the rest alone.
std::vector<LayerUnit> make_units(const Surroundings& of);

// Mode full without the inputs of layers, but for the first one's.
DraftPlan without_inputs(const Surroundings& of);

}  // namespace recollect
