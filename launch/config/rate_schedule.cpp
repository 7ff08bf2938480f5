#include "launch/config/rate_schedule.h"

#include <cmath>

namespace recollect {

namespace {

int64_t steps_or_part(int64_t steps, double part, const Config& config) {
  return steps > 0 ? steps
                   : static_cast<int64_t>(std::ceil(part * static_cast<double>(config.training.max_steps)));
}

}  // namespace

int64_t warmup_steps(const Config& config) {
  return steps_or_part(config.scheduler.warmup_steps, config.scheduler.warmup_ratio, config);
}

int64_t decay_steps(const Config& config) {
  return steps_or_part(config.scheduler.decay_steps, config.scheduler.decay_ratio, config);
}

LearningRateSchedule rate_schedule(const Config& config) {
  const Config::Scheduler& s = config.scheduler;
  return {.name = s.name,
          .peak = config.optimizer.learning_rate,
          .minimum = s.min_lr,
          .warmup_steps = warmup_steps(config),
          .total_steps = config.training.max_steps,
          .cycles = s.num_cycles,
          .power = s.power,
          .timescale = s.timescale,
          .decay_steps = decay_steps(config),
          .decay_shape = s.decay_shape,
          .rising = s.pct_start,
          .first_divisor = s.div_factor,
          .last_divisor = s.final_div_factor,
          .step_size = s.step_size,
          .gamma = s.gamma};
}

}  // namespace recollect
