// Learning-rate schedules as pure functions of the step: those of transformers.get_scheduler, under the same
// names, and torch's OneCycleLR and StepLR.
#pragma once

#include <cstdint>

#include "engine/core/spelled.h"

namespace recollect {

enum class SchedulerName {
  kConstant,
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kInverseSqrt,
  kWarmupStableDecay,
  kOneCycle,
  kStep
};
template <>
inline constexpr std::array<std::string_view, 9> kSpellings<SchedulerName> = {"constant",
                                                                              "linear",
                                                                              "cosine",
                                                                              "cosine_with_restarts",
                                                                              "polynomial",
                                                                              "inverse_sqrt",
                                                                              "warmup_stable_decay",
                                                                              "one_cycle",
                                                                              "step"};

// How a rate falls from one value to another.
enum class DecayShape { kCosine, kLinear, kOneMinusSqrt };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<DecayShape> = {"cosine", "linear", "1-sqrt"};

struct LearningRateSchedule {
  SchedulerName name = SchedulerName::kConstant;
  double peak = 0;
  double minimum = 0;        // of the schedules with ends_at_minimum()
  int64_t warmup_steps = 0;  // linear rise from 0; warmup_stable_decay: from the minimum
  int64_t total_steps = 0;
  int64_t cycles = 1;                            // cosine_with_restarts
  double power = 1;                              // polynomial
  int64_t timescale = 0;                         // inverse_sqrt; 0: the warm-up's steps, or 10000 without one
  int64_t decay_steps = 0;                       // warmup_stable_decay: the last steps, in which it falls
  DecayShape decay_shape = DecayShape::kCosine;  // warmup_stable_decay and one_cycle
  double rising = 0.3;                           // one_cycle: fraction of the steps in which it rises
  double first_divisor = 25;                     // one_cycle: the peak divided by the first rate
  double last_divisor = 1e4;                     // one_cycle: the first rate divided by the last
  int64_t step_size = 1;                         // step: steps between two falls
  double gamma = 0.1;                            // step: factor of each fall
};

// The rate of optimizer step `step`, counted from 0.
double learning_rate(const LearningRateSchedule& schedule, int64_t step);

bool ends_at_minimum(SchedulerName name);
// Returns true if the rate of a step depends on the total number of steps.
bool follows_length(SchedulerName name);

}  // namespace recollect
