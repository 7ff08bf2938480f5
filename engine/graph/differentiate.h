// Reverse-mode differentiation of a Graph: walks the forward ops backwards and lets each op kind emit its
// gradient ops. Gradients of parameters are accumulators ("grad/<parameter>", statistics dtype, persistent);
// the first op of a step's first micro-batch overwrites them, all others add.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/op_builder.h"

namespace recollect {

// A value whose gradient is known: `gradient` has its shape. kNone stands for the loss itself, whose gradient
// is 1.
struct GradientSeed {
  ValueId value = kNone;
  ValueId gradient = kNone;
};

// target value -> the value that holds its gradient. Targets of category kParameter get accumulators; others
// get whatever value carries their gradient. A target no gradient reaches is absent.
using Gradients = std::map<ValueId, ValueId>;

Gradients differentiate(Graph& graph, const OpRegistry& registry, const std::vector<ValueId>& targets,
                        const std::vector<GradientSeed>& seeds);

// What an OpDef::gradient sees.
class GradientBuilder {
 public:
  GradientBuilder(Graph& graph, const OpRegistry& registry, const std::vector<ValueId>& targets);

  Graph& graph() { return graph_; }
  const Op& forward() const { return graph_.op(current_); }  // invalidated by emit
  bool wanted(ValueId value) const { return value != kNone && wanted_[value]; }
  // The gradient that has arrived at a value so far; kNone where there is none.
  ValueId upstream(ValueId output) const;
  // Takes away what has arrived at `value`, for an op kind that adds it in its own kernel.
  ValueId take(ValueId value);
  void contribute(ValueId value, ValueId gradient);
  // The accumulator of a parameter's gradient; kNone for one that is no target, and has none.
  ValueId accumulator(ValueId parameter);
  // Of parameters whose gradients one kernel makes: where one of them has an accumulator, all have.
  std::vector<ValueId> accumulators(const std::vector<ValueId>& parameters);
  // Appends a gradient op named "<forward op>/<suffix>", in the forward op's layer; returns its first output.
  // `outputs`: accumulators, kNone for fresh values.
  ValueId emit(const std::string& suffix, const std::string& kind, Attributes attributes,
               std::vector<ValueId> inputs, std::vector<ValueId> outputs = {});
  // For op kinds that make their gradient while going forward: changes the forward op itself. Its outputs are
  // inferred anew; those given by `outputs` (kNone: fresh) follow the existing ones.
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
