// How long the learning rate rises.
#pragma once

#include <cmath>

#include "launch/config/config.h"

namespace recollect {

inline int64_t warmup_steps(const Config& config) {
  const Config::Scheduler& s = config.scheduler;
  const auto steps = static_cast<double>(config.training.max_steps);
  return s.warmup_steps > 0 ? s.warmup_steps : static_cast<int64_t>(std::ceil(s.warmup_ratio * steps));
}

}  // namespace recollect
