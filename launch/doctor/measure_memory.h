// Measures rates outside of training steps: memory by the size of the working set, copies on the host, and
// all-reduces.
#pragma once

#include "checkpointing/device_model.h"
#include "comm/communicator.h"

namespace recollect {

// Each size up to `most` bytes takes about `seconds_each`, on the OpenMP threads of the calling thread.
RateCurve measure_memory_levels(double seconds_each, double most);
RateCurve measure_copies(double seconds_each, double most);

// Collective over at least two ranks. Sets `collectives` and both numbers of the link to what this rank
// measured.
void measure_link(Communicator& world, int repeats, DeviceModel& device);

}  // namespace recollect
