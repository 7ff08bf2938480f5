#include "engine/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr int64_t kTimescale = 10000;  // steps; of inverse_sqrt without a warm-up

double part_done(int64_t done, int64_t all) {
  return static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
}

// Falls from 1 to 0 while `progress` goes from 0 to 1.
double remaining(DecayShape shape, double progress) {
  switch (shape) {
    case DecayShape::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case DecayShape::kLinear:
      return 1.0 - progress;
    case DecayShape::kOneMinusSqrt:
      return 1.0 - std::sqrt(progress);
  }
  throw Error(ExitCode::kInternal, "a rate that falls in another way");
}

double above_minimum(const LearningRateSchedule& s, double part_of_peak) {
  return s.minimum + (s.peak - s.minimum) * part_of_peak;
}

// A cosine that starts again from the peak in each cycle.
double restarted(const LearningRateSchedule& s, double progress) {
  if (progress >= 1.0) return s.minimum;
  const double in_cycle = std::fmod(static_cast<double>(s.cycles) * progress, 1.0);
  return above_minimum(s, remaining(DecayShape::kCosine, in_cycle));
}

double inverse_sqrt(const LearningRateSchedule& s, int64_t step) {
  const int64_t timescale = s.timescale > 0 ? s.timescale : s.warmup_steps > 0 ? s.warmup_steps : kTimescale;
  return s.peak /
         std::sqrt(static_cast<double>(step - s.warmup_steps + timescale) / static_cast<double>(timescale));
}

double stable_then_falling(const LearningRateSchedule& s, int64_t step) {
  const int64_t falling = step - (s.total_steps - s.decay_steps);
  if (falling < 0) return s.peak;
  return above_minimum(s, remaining(s.decay_shape, std::min(1.0, part_done(falling, s.decay_steps))));
}

// Follows torch, which counts steps from 0: the rise ends at `rising` * steps - 1 and the fall at steps - 1.
double one_cycle(const LearningRateSchedule& s, int64_t step) {
  const auto now = static_cast<double>(step), steps = static_cast<double>(s.total_steps);
  const double first = s.peak / s.first_divisor, last = first / s.last_divisor;
  const double top = s.rising * steps - 1.0, end = steps - 1.0;
  const bool rises = now <= top;
  const double from = rises ? first : s.peak, to = rises ? s.peak : last;
  const double begin = rises ? 0.0 : top, length = (rises ? top : end) - begin;
  const double progress = length > 0 ? std::min(1.0, (now - begin) / length) : 1.0;
  return to + (from - to) * remaining(s.decay_shape, progress);
}

double falling_by_steps(const LearningRateSchedule& s, int64_t step) {
  return s.peak * std::pow(s.gamma, static_cast<double>((step - s.warmup_steps) / s.step_size));
}

}  // namespace

double learning_rate(const LearningRateSchedule& s, int64_t step) {
  if (s.name == SchedulerName::kOneCycle) return one_cycle(s, step);
  if (step < s.warmup_steps) {
    if (s.name == SchedulerName::kWarmupStableDecay) return above_minimum(s, part_done(step, s.warmup_steps));
    return s.peak * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  }
  const double progress = std::min(1.0, part_done(step - s.warmup_steps, s.total_steps - s.warmup_steps));
  switch (s.name) {
    case SchedulerName::kConstant:
      return s.peak;
    case SchedulerName::kLinear:
      return above_minimum(s, 1.0 - progress);
    case SchedulerName::kCosine:
      return above_minimum(s, remaining(DecayShape::kCosine, progress));
    case SchedulerName::kCosineWithRestarts:
      return restarted(s, progress);
    case SchedulerName::kPolynomial:
      return above_minimum(s, std::pow(1.0 - progress, s.power));
    case SchedulerName::kInverseSqrt:
      return inverse_sqrt(s, step);
    case SchedulerName::kWarmupStableDecay:
      return stable_then_falling(s, step);
    case SchedulerName::kStep:
      return falling_by_steps(s, step);
    case SchedulerName::kOneCycle:
      break;
  }
  throw Error(ExitCode::kInternal, "unknown schedule '" + std::string(name_of(s.name)) + "'");
}

bool ends_at_minimum(SchedulerName name) {
  switch (name) {
    case SchedulerName::kLinear:
    case SchedulerName::kCosine:
    case SchedulerName::kCosineWithRestarts:
    case SchedulerName::kPolynomial:
    case SchedulerName::kWarmupStableDecay:
      return true;
    default:
      return false;
  }
}

bool follows_length(SchedulerName name) { return ends_at_minimum(name) || name == SchedulerName::kOneCycle; }

}  // namespace recollect
