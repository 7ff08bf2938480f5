// Plans by dynamic programming over the layers from the last to the first: any set of a layer's units is one of its options,
// if no other set is as good in all. So recomputation may begin at any value of any layer, and another one in each. What the
// layers from one on want of the layer before it is made once, and kept (Replay::kSegment), or for each of them again
// (Replay::kNothing). Bytes are close to the program's, and no more: the meter tells what a plan takes.
//
// A choice for the layers from one on has a peak, `other`, and `open`, of those layers that find made what the layer before ends
// with: their peak, or, where each makes it again, what is saved of them.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "checkpointing/planner/candidates.h"
#include "checkpointing/planner/layer_units.h"

namespace recollect {

class LayerFront {
 public:
  LayerFront(const Surroundings& of, const BoundMaker& bounds, const std::vector<LayerUnit>& units);

  // From few bytes to many; what outside of the layers is saved is that of mode full.
  std::vector<DraftPlan> plans(uint64_t most);
  // Where each layer makes again what it wants: with no more than about so many bytes.
  std::vector<DraftPlan> forgetful(uint64_t most);
  int64_t work() const { return work_; }  // ops that were looked at

 private:
  using Units = uint64_t;  // a bit for each that is saved
  struct Option {
    Units units = 0;
    PlanMeter::LayerReading takes;
  };
  struct Label {
    uint64_t other = 0, open = 0;
    double seconds = 0;
    int parent = -1, option = 0;  // parent: of the layer behind
    int wanted = 0;               // of the parent
    uint64_t bytes() const { return std::max(other, open); }
  };
  // By how many times the layers want what the layer before ends with.
  using Labels = std::vector<std::vector<Label>>;
  class Cells;

  std::vector<ValueId> values_of(Units units, int layer) const;
  const std::vector<Option>& options_of(int layer, bool wanted, bool forgets);
  std::vector<Option> find_options(int layer, bool wanted, bool forgets);
  template <typename Extend>
  std::vector<DraftPlan> solve(bool forgets, int most_wanted, uint64_t most, const Extend& extend);

  const Surroundings& of_;
  PlanMeter& meter_;
  std::vector<const LayerUnit*> parts_;       // of which no two save the same
  std::vector<Units> choices_;                // parts that are saved together, or not
  std::vector<std::vector<ValueId>> always_;  // by layer
  std::vector<uint64_t> likeness_;            // by layer: the first and the last one are like no other
  uint64_t head_ = 0;                         // bytes at work behind the layers
  int64_t work_ = 0;
  std::map<std::tuple<uint64_t, bool, bool>, std::vector<Option>> options_;  // by likeness
};

}  // namespace recollect
