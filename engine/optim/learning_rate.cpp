#include "engine/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/error.h"

namespace recollect {

double learning_rate(const LearningRateSchedule& s, int64_t step) {
  if (step < s.warmup_steps)
    return s.peak * static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, s.warmup_steps));
  if (s.name == SchedulerName::kConstant) return s.peak;
  const double span = static_cast<double>(std::max<int64_t>(1, s.total_steps - s.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - s.warmup_steps) / span);
  if (s.name == SchedulerName::kLinear) return s.minimum + (s.peak - s.minimum) * (1.0 - progress);
  if (s.name == SchedulerName::kCosine)
    return s.minimum + (s.peak - s.minimum) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  throw Error(ExitCode::kInternal, "unknown schedule '" + std::string(name_of(s.name)) + "'");
}

}  // namespace recollect
