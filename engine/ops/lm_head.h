// Which parameter gradients the head computes, and how it caps its logits, in all backends.
#pragma once

#include "engine/graph/op_def.h"

namespace recollect {

// An optional attribute of the heads: logits become cap * tanh(logit / cap). 0: no cap.
inline double logit_cap(const Attributes& attributes) {
  return attributes.has("logit_cap") ? attributes.real("logit_cap") : 0;
}

// Where they stand among the outputs, behind the loss and the gradient of x; kNone where there is none.
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
