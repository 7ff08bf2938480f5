// Learning-rate schedules as pure functions of the step, as transformers.get_scheduler defines them.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

struct LearningRateSchedule {
  std::string name = "constant";  // constant, linear, cosine
  double peak = 0;
  double minimum = 0;        // linear and cosine end here
  int64_t warmup_steps = 0;  // rises from 0, linearly
  int64_t total_steps = 0;
};

// The rate of optimizer step `step`, counted from 0.
double learning_rate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace recollect
