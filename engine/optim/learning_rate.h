// Learning-rate schedules as pure functions of the step, as transformers.get_scheduler defines them.
#pragma once

#include <cstdint>

#include "engine/core/spelled.h"

namespace recollect {

enum class SchedulerName { kConstant, kLinear, kCosine };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<SchedulerName> = {"constant", "linear", "cosine"};

struct LearningRateSchedule {
  SchedulerName name = SchedulerName::kConstant;
  double peak = 0;
  double minimum = 0;        // linear and cosine end here
  int64_t warmup_steps = 0;  // rises from 0, linearly
  int64_t total_steps = 0;
};

// The rate of optimizer step `step`, counted from 0.
double learning_rate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace recollect
