// `recollect calibrate`: measures this machine, in a few seconds, with the kernels that training uses.
#pragma once

#include "checkpointing/device_model.h"
#include "launch/commands.h"

namespace recollect {

// With the calling thread's OpenMP threads; the link is that between two rank threads.
DeviceModel measure_device();

// bytes/s that values are written to and read from a file in that folder, into `device`; false where they go
// through the system's page cache. Error kStorage.
bool measure_disk(const std::string& folder, DeviceModel& device);

void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
