// `recollect calibrate`: measures this machine, in some seconds, with steps of small models: ops that run
// among others find the caches as they do in training.
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
  std::vector<int> threads;  // of a rank, ascending; the last ones' rates are the model's own
  double seconds = 15;       // about what it may take
};

// The link is that between two rank threads.
DeviceModel measure_device(const Calibration& calibration);

// bytes/s that values are written to and read from a file in that folder, into `device`; false where they go
// through the system's page cache. Error kStorage.
bool measure_disk(const std::string& folder, DeviceModel& device);

// What is wrong with rates that were measured between two looks at the cores; "" where nothing is.
std::string disturbance(const CoreTimes& before, const CoreTimes& after);

// "not measured: ...": what the rates leave open, and why.
std::string unmeasured(const DeviceModel& device);

OptionTable calibrate_options();
void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
