// Clipping by global norm, the same arithmetic on every backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/core/host_device.h"
#include "engine/core/tensor.h"
#include "engine/graph/attributes.h"

namespace recollect {

struct Clip {
  double norm, factor;
};

// The inputs of an op clip_factor. Absent inputs are null.
struct ClipInputs {
  ClipInputs(std::span<const Tensor> in, const Attributes& attributes)
      : sharded(in[0].as<double>()),
        replicated(in[1].as<double>()),
        loss_scale(optional(in, 2)),
        repeated(optional(in, 3)),
        loss(optional(in, 4)),
        repeats(repeated ? static_cast<double>(attributes.integer("repeats")) : 1.0),
        max_norm(attributes.real("max_norm")) {}

  const double *sharded, *replicated, *loss_scale, *repeated, *loss;
  double repeats, max_norm;

 private:
  static const double* optional(std::span<const Tensor> in, std::size_t i) {
    return i < in.size() && in[i].defined() ? in[i].as<double>() : nullptr;
  }
};

// Like torch's clip_grad_norm_; `max_norm` 0 never clips. The inputs are sums of squares of gradients that
// were multiplied by `loss_scale`; `repeated` counts each gradient `repeats` times. If the norm or the loss
// is not finite, the factor is NaN and the step is skipped.
RECOLLECT_HOST_DEVICE inline Clip clip(const ClipInputs& in) {
  const double loss_scale = in.loss_scale ? *in.loss_scale : 1.0;
  double sum = *in.sharded + *in.replicated;
  if (in.repeated) sum += *in.repeated / in.repeats;
  const double norm = std::sqrt(sum) / loss_scale;
  if (!std::isfinite(norm) || (in.loss && !std::isfinite(*in.loss)))
    return {norm, std::numeric_limits<double>::quiet_NaN()};
  return {norm, (in.max_norm > 0 ? std::min(1.0, in.max_norm / (norm + 1e-6)) : 1.0) / loss_scale};
}

}  // namespace recollect
