// An update rule says what it keeps of a parameter from step to step, which numbers it wants from the host at
// each update, and the ops of an update. Everything else of a step (norm, clipping, master copies) is the
// same for all rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/op_builder.h"
#include "parallel/parameter.h"

namespace recollect {

// What may be said of rules; each reads what concerns it.
struct OptimizerSettings {
  std::string name = "adamw";  // of rules.h
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, weight_decay = 0.01;
  bool decay_all = false;    // otherwise vectors (biases and norms) are not decayed
  double max_grad_norm = 1;  // 0: never clips
  bool loss_scaled = false;  // gradients are `loss_scale` times too large
};

// A tensor that a rule keeps of one parameter: this rank's part.
struct OptimizerState {
  std::string name;  // as torch's optimizers call it
  Shape shape;
  DType dtype = DType::kF32;
  Placement placement = {};
};

// One parameter's turn.
struct ParameterUpdate {
  const Parameter& parameter;  // with gradient, master and states
  ValueId schedule = kNone;    // the rule's numbers
  ValueId factor = kNone;      // of the gradient
  double weight_decay = 0;
};

class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;

  virtual std::vector<OptimizerState> states(const Parameter& parameter, const Value& gradient) const = 0;
  // Puts the numbers of update `update`, 1 for the first, in the place of what `to` holds: always as many, so
  // that only the first call allocates.
  virtual void scalars(double learning_rate, int64_t update, std::vector<double>& to) const = 0;
  // `ops` are those of the optimizer's phase, which add to what they write.
  virtual void emit(OpBuilder& ops, const ParameterUpdate& update) const = 0;
};

// A state like the gradient.
OptimizerState state_like(std::string name, const Value& gradient);

// A rule that is one op: it reads the numbers, the factor and the gradient, and writes the master, the states
// and, where that is another value, the parameter. `attributes` are the rule's own.
void emit_update(OpBuilder& ops, const ParameterUpdate& update, std::string_view kind, Attributes attributes);

}  // namespace recollect
