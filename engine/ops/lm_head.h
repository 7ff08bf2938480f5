// The gradients that the language-model head computes, and the cap of its logits, for all backends.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

// An optional attribute of the heads: logits become cap * tanh(logit / cap). 0: no cap.
inline double logit_cap(const Attributes& attributes) {
  return attributes.has("logit_cap") ? attributes.real("logit_cap") : 0;
}

// The indices of the parameter gradients among the outputs, after the loss and the gradient of x; kNone if
// there is none.
struct HeadGradients {
  explicit HeadGradients(const OpView& view) {
    const Attributes& attributes = view.attributes();
    if (!attributes.integer("gradient")) return;
    int next = 2;
    if (!attributes.has("frozen_weight")) weight = next++;
    if (view.has_input(4) && !attributes.has("frozen_bias")) bias = next;
  }

  int weight = kNone, bias = kNone;
};

}  // namespace recollect
