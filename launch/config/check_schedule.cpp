#include "launch/config/check_schedule.h"

#include <fmt/format.h>

#include "launch/config/rate_schedule.h"

namespace recollect {
namespace {

using RateShape = SchedulerName;

bool goes_by_step(const Config& c) { return c.optimizer.relative_step != RelativeStep::kOff; }

// Whether the schedule's rate is anybody's.
bool learns_at_all(const Config& c) { return c.optimizer.learning_rate > 0 && !goes_by_step(c); }

// Whether the last step still has the peak, or less than that only because the rate rises.
bool never_falls(const Config& c) {
  const LearningRateSchedule schedule = rate_schedule(c);
  const int64_t last = schedule.total_steps - 1;
  return last <= schedule.warmup_steps || learning_rate(schedule, last) == schedule.peak;
}

bool is_shape(const Config& c, RateShape shape) { return c.scheduler.name == shape; }

// Keys that one shape alone reads.
InertRule only_of(RateShape shape, const std::vector<std::string>& keys, const char* why) {
  return {keys, {"scheduler.name"}, [shape](const Config& c) { return !is_shape(c, shape); }, why, true};
}

// Keys that this shape, of all, does not read.
InertRule not_of(RateShape shape, const std::vector<std::string>& keys, const char* why) {
  return {keys, {"scheduler.name"}, [shape](const Config& c) { return is_shape(c, shape); }, why};
}

void check_decay(const Config& config, std::vector<Finding>& found) {
  const Config::Scheduler& s = config.scheduler;
  if (s.decay_steps > 0 && s.decay_ratio > 0)
    found.push_back({{"scheduler.decay_steps", "scheduler.decay_ratio"},
                     "scheduler.decay_steps and scheduler.decay_ratio are both given; give one"});
  if (is_shape(config, RateShape::kWarmupStableDecay) && s.decay_steps == 0 && s.decay_ratio == 0)
    found.push_back(
        {{"scheduler.name"},
         "scheduler.name warmup_stable_decay needs scheduler.decay_steps or scheduler.decay_ratio, "
         "the steps at the end in which the learning rate falls"});
  if (is_shape(config, RateShape::kOneCycle) && s.decay_shape == DecayShape::kOneMinusSqrt)
    found.push_back(
        {{"scheduler.decay_shape", "scheduler.name"},
         "scheduler.decay_shape 1-sqrt is one of warmup_stable_decay; one_cycle has cosine and linear"});
  if (is_shape(config, RateShape::kStep) && s.step_size == 0)
    found.push_back({{"scheduler.name"},
                     "scheduler.name step needs scheduler.step_size, the steps from one fall to the next"});
}

}  // namespace

void check_schedule(const Config& config, std::vector<Finding>& found) {
  const Config::Scheduler& s = config.scheduler;
  if (s.warmup_steps > 0 && s.warmup_ratio > 0) {
    found.push_back({{"scheduler.warmup_steps", "scheduler.warmup_ratio"},
                     "scheduler.warmup_steps and scheduler.warmup_ratio are both given; give one"});
  }
  if (s.min_lr > config.optimizer.learning_rate) {
    found.push_back({{"scheduler.min_lr", "optimizer.learning_rate"},
                     fmt::format("scheduler.min_lr {} is above optimizer.learning_rate {}", s.min_lr,
                                 config.optimizer.learning_rate)});
  }
  check_decay(config, found);
}

std::vector<InertRule> inert_schedule_rules() {
  return {
      {{"scheduler.name", "scheduler.warmup_steps", "scheduler.warmup_ratio"},
       {"optimizer.learning_rate"},
       [](const Config& c) { return c.optimizer.learning_rate == 0 && !goes_by_step(c); },
       "no parameter changes"},
      {{"optimizer.learning_rate", "scheduler.name", "scheduler.warmup_steps", "scheduler.warmup_ratio",
        "scheduler.min_lr"},
       {"optimizer.relative_step"},
       goes_by_step,
       "the number of the step says the learning rate"},
      {{"scheduler.name"},
       {"scheduler.min_lr"},
       [](const Config& c) {
         return ends_at_minimum(c.scheduler.name) && learns_at_all(c) &&
                c.scheduler.min_lr == c.optimizer.learning_rate;
       },
       "the learning rate ends where it begins"},
      {{"scheduler.name", "scheduler.min_lr", "scheduler.num_cycles", "scheduler.power",
        "scheduler.timescale"},
       {"scheduler.warmup_steps", "scheduler.warmup_ratio", "training.max_steps"},
       [](const Config& c) {
         const int64_t steps = c.training.max_steps;
         return !is_shape(c, RateShape::kConstant) && !is_shape(c, RateShape::kWarmupStableDecay) &&
                !is_shape(c, RateShape::kOneCycle) && learns_at_all(c) && steps > 0 &&
                warmup_steps(c) + 1 >= steps;
       },
       "no step comes after the one with the highest learning rate"},
      {{"scheduler.name", "scheduler.gamma"},
       {"scheduler.step_size", "scheduler.warmup_steps", "scheduler.warmup_ratio", "training.max_steps"},
       [](const Config& c) {
         const int64_t steps = c.training.max_steps;
         return is_shape(c, RateShape::kStep) && learns_at_all(c) && c.scheduler.step_size > 0 && steps > 0 &&
                warmup_steps(c) + 1 < steps && never_falls(c);
       },
       "no step comes after the first fall"},
      {{"scheduler.decay_shape"},
       {"scheduler.decay_steps", "scheduler.decay_ratio", "training.max_steps"},
       [](const Config& c) {
         return is_shape(c, RateShape::kWarmupStableDecay) && learns_at_all(c) && c.training.max_steps > 0 &&
                decay_steps(c) > 0 && never_falls(c);
       },
       "no step has less than the highest learning rate because of it"},
      only_of(RateShape::kCosineWithRestarts, {"scheduler.num_cycles"}, "it does not begin again"),
      only_of(RateShape::kPolynomial, {"scheduler.power"}, "only polynomial has a power"),
      only_of(RateShape::kInverseSqrt, {"scheduler.timescale"}, "only inverse_sqrt has a time scale"),
      only_of(RateShape::kWarmupStableDecay, {"scheduler.decay_steps", "scheduler.decay_ratio"},
              "only warmup_stable_decay falls in the last steps alone"),
      {{"scheduler.decay_shape"},
       {"scheduler.name"},
       [](const Config& c) {
         return !is_shape(c, RateShape::kWarmupStableDecay) && !is_shape(c, RateShape::kOneCycle);
       },
       "it has its own",
       true},
      only_of(RateShape::kStep, {"scheduler.step_size", "scheduler.gamma"}, "only step falls at once"),
      only_of(RateShape::kOneCycle,
              {"scheduler.pct_start", "scheduler.div_factor", "scheduler.final_div_factor"},
              "only one_cycle has that"),
      not_of(RateShape::kOneCycle, {"scheduler.warmup_steps", "scheduler.warmup_ratio"},
             "scheduler.pct_start says how long the learning rate rises"),
      not_of(RateShape::kOneCycle, {"scheduler.min_lr"},
             "scheduler.div_factor and scheduler.final_div_factor say where the learning rate ends"),
      not_of(RateShape::kConstant, {"scheduler.min_lr"}, "the learning rate does not fall"),
      not_of(RateShape::kInverseSqrt, {"scheduler.min_lr"},
             "the learning rate falls as long as there are steps"),
      not_of(RateShape::kStep, {"scheduler.min_lr"}, "scheduler.gamma says how far the learning rate falls"),
  };
}

}  // namespace recollect
