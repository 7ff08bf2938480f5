// Clipping by global norm, the same arithmetic on every backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/host_device.h"

namespace recollect {

struct Clip {
  double norm, factor;
};

// As torch's clip_grad_norm_; `max_norm` 0 never clips. `sum`: of the squares of gradients that are
// `loss_scale` times what they stand for. The factor is NaN for a norm that is not finite: such a step is not
// taken.
RECOLLECT_HOST_DEVICE inline Clip clip(double sum, double max_norm, double loss_scale) {
  const double norm = std::sqrt(sum) / loss_scale;
  if (!std::isfinite(norm)) return {norm, std::numeric_limits<double>::quiet_NaN()};
  return {norm, (max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0) / loss_scale};
}

}  // namespace recollect
