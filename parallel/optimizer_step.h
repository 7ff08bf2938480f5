// The optimizer phase of a program: loss over the data ranks, global gradient norm, clipping, one update per
// parameter.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/op_def.h"
#include "parallel/parameter.h"

namespace recollect {

struct OptimizerSettings {
  std::string name = "adamw";  // adamw, adamw_hf, adam, sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, weight_decay = 0.01;
  bool decay_all = false;    // otherwise vectors (biases and norms) are not decayed
  double max_grad_norm = 1;  // 0: never clips
  bool loss_scaled = false;  // gradients are `loss_scale` times too large
};

struct OptimizerHandles {
  ValueId schedule = kNone;    // input [3] f64: learning rate, 1 - beta1^t, 1 - beta2^t
  ValueId total_loss = kNone;  // [1] f64, over all data ranks
  ValueId norm = kNone;        // [1] f64, of all gradients before clipping
  ValueId loss_scale = kNone;  // input [1] f64, where there is one
};

// Fills in the parameters' master and moments.
OptimizerHandles append_optimizer(Graph& graph, const OpRegistry& registry,
                                  std::vector<Parameter>& parameters, ValueId loss,
                                  const OptimizerSettings& settings, int data_size, int tensor_size);

}  // namespace recollect
