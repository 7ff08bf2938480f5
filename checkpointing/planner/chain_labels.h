// The choices of a chain by device bytes and seconds alone, all of them in one pass of dynamic programming from the last
// layer to the first. A label is a choice for the layers from one on: what it needs on the device beside what the layers
// before hold, and its seconds. Byte counts are exact always; of labels that treat the layer before alike, those stay
// that no other is as good as in both.
//
// Where labels are too many, a fixed grid of bytes says which go: nothing depends on a budget.
#pragma once

#include <vector>

#include "checkpointing/planner/chain_costs.h"

namespace recollect {

struct ChainLabel {
  uint64_t device = 0;
  double seconds = 0;
  int parent = -1, option = 0;  // parent: a label of the layer behind
};

class ChainLabels {
 public:
  explicit ChainLabels(const ChainCosts& costs);

  // Whole choices, by rising device bytes and falling seconds.
  const std::vector<ChainLabel>& whole() const { return whole_; }
  std::vector<int> options(const ChainLabel& whole) const;

 private:
  struct Step {
    int parent = -1, option = 0;
  };
  std::vector<std::vector<Step>> steps_;  // by layer
  std::vector<ChainLabel> whole_;
};

}  // namespace recollect
