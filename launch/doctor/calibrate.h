// The command `recollect calibrate`: measures the rates of this machine in some seconds, with training steps
// of small models, so that ops find the caches in the same state as in training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "comm/mpi.h"
#include "engine/io/core_times.h"
#include "launch/config/words.h"

namespace recollect {

struct Calibration {
  std::vector<int> threads;  // threads of a rank, ascending; the last one gives the model's main rates
  double seconds = 15;       // approximate time to spend
};

// The link is measured between two rank threads.
DeviceModel measure_device(const Calibration& calibration);

// Measures the bytes/s of writes to and reads from a file in `folder`, and stores them in `device`. Returns
// false if they go through the page cache. Throws kStorage.
bool measure_disk(const std::string& folder, DeviceModel& device);

// A warning if other programs disturbed a measurement between the two readings; else "".
std::string disturbance(const CoreTimes& before, const CoreTimes& after);

// "not measured: ...": the rates that are missing, and why.
std::string unmeasured(const DeviceModel& device);

OptionTable calibrate_options();
void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
