// Which activations backward needs: what a plan decides on. The analysis is made once, of a differentiated
// graph, and handed from pass to pass: recomputing and moving leave these values and their ids what they are.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class SavedActivations {
 public:
  explicit SavedActivations(const Graph& graph);

  // The forward values that backward reads, or gathers what it reads from, and that could be recomputed, and
  // the inputs of layers, in program order.
  const std::vector<ValueId>& values() const { return values_; }

  // The value that layer i takes from what is before it, by layer; of the layers of the graph. What is made
  // of nothing, or of the batch's whole numbers, as a table of positions is, comes from no layer and does not
  // count.
  const std::vector<ValueId>& layer_inputs() const { return layer_inputs_; }

  // An input of a layer that backward does not read itself, but what the layer makes of it first: saving it
  // serves recomputation alone.
  bool only_begins_layer(ValueId v) const { return has(v, kOnlyInput); }

  // A number a row, beside what an op is for: not worth making again, nor storing with fewer bits.
  bool is_statistic(ValueId v) const { return has(v, kStatistic); }

  // A value that was put together of the tensor ranks' parts. It is never saved: a rank saves its part, and
  // backward gathers it again (recompute.h).
  bool is_gathered(ValueId v) const { return has(v, kGathered); }

 private:
  enum Fact : unsigned char { kForward = 1, kGathered = 2, kStatistic = 4, kOnlyInput = 8 };
  bool has(ValueId v, Fact fact) const { return v >= 0 && v < size() && (facts_[v] & fact) != 0; }
  ValueId size() const { return static_cast<ValueId>(facts_.size()); }
  void note_facts(const Graph& graph);
  void find_values(const Graph& graph);
  void find_layer_inputs(const Graph& graph);
  void add_layer_inputs(const Graph& graph);

  std::vector<unsigned char> facts_;  // by value
  std::vector<ValueId> values_, layer_inputs_;
};

}  // namespace recollect
