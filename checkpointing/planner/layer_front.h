// Plans by dynamic programming over the layers, from last to first. A layer's options are sets of units to save,
// without the sets that another one beats in every reading. So recomputation may begin at any value of a layer.
// Values that later layers need are recomputed once and kept (Replay::kSegment), or recomputed for each of
// these layers (Replay::kNothing). Bytes are close to the program's, not exact: the meter reads the finished plan.
//
// A label is a choice for the last layers. `open`: the peak of layers that still need the output of
// the layer before (with kNothing: the bytes that these layers save). `other`: the peak of all others.
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

  // Sorted by bytes, the smallest first. Outside of the layers the same values are saved as in mode full.
  std::vector<DraftPlan> plans(uint64_t most);
  // For Replay::kNothing.
  std::vector<DraftPlan> forgetful(uint64_t most);
  int64_t work() const { return work_; }  // ops that were visited

 private:
  using Units = uint64_t;  // one bit for each saved unit
  struct Option {
    Units units = 0;
    PlanMeter::LayerReading takes;
  };
  struct Label {
    uint64_t other = 0, open = 0;
    double seconds = 0;
    int parent = -1, option = 0;  // parent: the label of the next layer
    int wanted = 0;               // of the parent's labels: its first index
    uint64_t bytes() const { return std::max(other, open); }
  };
  // By the number of layers that need the output of the layer before.
  using Labels = std::vector<std::vector<Label>>;
  class Cells;

  std::vector<ValueId> values_of(Units units, int layer) const;
  const std::vector<Option>& options_of(int layer, bool wanted, bool forgets);
  std::vector<Option> find_options(int layer, bool wanted, bool forgets);
  template <typename Extend>
  std::vector<DraftPlan> solve(bool forgets, int most_wanted, uint64_t most, const Extend& extend);

  const Surroundings& of_;
  PlanMeter& meter_;
  std::vector<const LayerUnit*> parts_;       // no two of them save the same value
  std::vector<Units> choices_;                // sets of parts; the search saves or drops a whole set
  std::vector<std::vector<ValueId>> always_;  // by layer: values that every plan saves
  std::vector<uint64_t> likeness_;            // by layer; the first and the last one equal no other
  uint64_t head_ = 0;                         // bytes in use after the layers
  uint64_t slack_ = 0;                        // bytes of an option that do not matter (not with kNothing)
  int64_t work_ = 0;
  std::map<std::tuple<uint64_t, bool, bool>, std::vector<Option>> options_;  // by likeness
};

}  // namespace recollect
