// How long a run is that counts epochs, and where they end. Epochs follow each other without a gap, so that only the last step of all may go
// on into one more; how many steps they are is known when the samples have been counted and the ranks are there.
#pragma once

#include <cstdint>

#include "launch/config/config.h"

namespace recollect {

// The fewest steps that see `epochs` x `samples` samples, `batch` of them each. `epochs` is the decimal number that a
// person wrote, of at least kLeastEpochs: a tenth of 30 samples is 3.
int64_t steps_of_epochs(double epochs, int64_t samples, int64_t batch);

// Where a run is after a step.
struct TrainedSoFar {
  int64_t step = 0;     // 1 after the first
  int64_t seen = 0;     // samples, of all epochs
  int64_t batch = 0;    // of them in the latest step
  int64_t samples = 0;  // of an epoch; 0 where it has no end
};

// Whether something happens now that happens every so many steps, or every so many epochs: after the step that sees the
// last sample of these.
bool is_occasion(int64_t every_steps, double every_epochs, const TrainedSoFar& now);

inline constexpr double kLeastEpochs = 1e-6;

// training.max_steps of a configuration that has training.epochs and is fitted to its world, and what follows from it.
// From then on the run counts steps, as every other. Error kConfiguration for a key that the run is too short for.
void complete_steps(Config& config, int64_t samples);

}  // namespace recollect
