// Rates beside those of training steps: of memory, by how much is touched over and over; of copies on the host; and of what
// ranks sum together.
#pragma once

#include "checkpointing/device_model.h"
#include "comm/communicator.h"

namespace recollect {

// Each amount of bytes up to `most` takes about so many seconds, on the calling thread's OpenMP threads.
RateCurve measure_memory_levels(double seconds_each, double most);
RateCurve measure_copies(double seconds_each, double most);

// Collective, of two ranks or more: sets `collectives` and both numbers of the link, those that this rank has measured.
void measure_link(Communicator& world, int repeats, DeviceModel& device);

}  // namespace recollect
