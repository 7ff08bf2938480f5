// Clipping by global norm, the same arithmetic on every backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace recollect {

// As torch's clip_grad_norm_; `max_norm` 0 never clips. NaN for a norm that is not finite: such a step is not
// taken.
inline double clip_factor(double norm, double max_norm) {
  if (!std::isfinite(norm)) return std::numeric_limits<double>::quiet_NaN();
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace recollect
