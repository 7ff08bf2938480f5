// Reverse-mode differentiation of a Graph. It walks the forward ops in reverse order and lets each op kind
// emit its gradient ops. Parameter gradients are accumulators ("grad/<parameter>", statistics dtype,
// persistent): the first op that writes one in a step's first micro-batch overwrites it, all others add to
// it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/op_builder.h"

namespace recollect {

// A value whose gradient is known. `gradient` has the shape of `value`; kNone means that `value` is the loss
// itself, whose gradient is 1.
struct GradientSeed {
  ValueId value = kNone;
  ValueId gradient = kNone;
};

// Maps each target to the value that holds its gradient. Targets of category kParameter get accumulators; for
// others it is whatever value carries the gradient. A target that no gradient reaches is absent.
using Gradients = std::map<ValueId, ValueId>;

Gradients differentiate(Graph& graph, const OpRegistry& registry, const std::vector<ValueId>& targets,
                        const std::vector<GradientSeed>& seeds);

// The interface that an OpDef::gradient works with.
class GradientBuilder {
 public:
  GradientBuilder(Graph& graph, const OpRegistry& registry, const std::vector<ValueId>& targets);

  Graph& graph() { return graph_; }
  const Op& forward() const { return graph_.op(current_); }  // invalidated by emit
  bool wanted(ValueId value) const { return value != kNone && wanted_[value]; }
  // Returns the sum of the gradients that have arrived at a value so far; kNone if there are none.
  ValueId upstream(ValueId output) const;
  // Returns what has arrived at `value` and forgets it, for an op kind that adds it in its own kernel.
  ValueId take(ValueId value);
  // Adds a gradient to what has arrived at `value`. Does nothing if the value needs no gradient.
  void contribute(ValueId value, ValueId gradient);
  // Returns the accumulator of a parameter's gradient; kNone if the parameter needs no gradient.
  ValueId accumulator(ValueId parameter);
  // The same for parameters whose gradients one kernel computes: if one of them needs an accumulator, all get
  // one.
  std::vector<ValueId> accumulators(const std::vector<ValueId>& parameters);
  // Appends a gradient op named "<forward op>/<suffix>", in the forward op's layer, and returns its first
  // output. `outputs`: accumulators, or kNone for new values.
  ValueId emit(const std::string& suffix, const std::string& kind, Attributes attributes,
               std::vector<ValueId> inputs, std::vector<ValueId> outputs = {});
  // For op kinds that compute their gradient during forward. Sets `attribute` to 1 on the forward op itself,
  // infers its outputs again, and appends `outputs` to the existing ones (kNone: a new value). Returns those.
  std::vector<ValueId> extend_forward(const std::string& attribute, std::vector<ValueId> outputs);

 private:
  friend Gradients differentiate(Graph&, const OpRegistry&, const std::vector<ValueId>&,
                                 const std::vector<GradientSeed>&);
  Accumulate first_or_add(const std::vector<ValueId>& outputs);
  ValueId make_accumulator(ValueId parameter);

  Graph& graph_;
  OpBuilder ops_;
  OpId current_ = kNone;
  std::vector<char> wanted_;
  std::map<ValueId, ValueId> arrived_;
  std::map<ValueId, ValueId> accumulators_;
};

}  // namespace recollect
