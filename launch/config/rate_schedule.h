// The schedule of the learning rate that a configuration describes.
#pragma once

#include "engine/optim/learning_rate.h"
#include "launch/config/config.h"

namespace recollect {

// Steps in which the rate rises.
int64_t warmup_steps(const Config& config);
// Steps at the end in which that of warmup_stable_decay falls.
int64_t decay_steps(const Config& config);
LearningRateSchedule rate_schedule(const Config& config);

}  // namespace recollect
