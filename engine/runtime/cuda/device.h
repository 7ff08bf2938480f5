// A Device that is one CUDA GPU. Where the backend is not built, absent.cpp answers.
#pragma once

#include <memory>
#include <string>

#include "engine/runtime/device.h"

namespace recollect::cuda {

// Whether each kind of run is captured once, and replayed. What one rank replays with others, all must: there
// a run that cannot be captured is an Error.
enum class Graphs { kNone, kPreferred, kRequired };

struct DeviceOptions {
  int ordinal = 0;  // of the devices that this process sees
  bool pinned_required =
      false;  // host arena: Error kHostMemory instead of a warning where it cannot be pinned
  Graphs graphs = Graphs::kPreferred;
  bool shareable = false;  // the arena, where that can be had: for NCCL's symmetric windows
};

bool is_built();  // whether this program has the backend

// How many devices this process can use. Error kConfiguration, naming what is missing, where it can use none:
// the backend in this build, a driver, or a device.
int device_count();

// "GPU-0123...", the same for every process that sees this device, by whatever number.
std::string hardware_id(int ordinal);

// Error kConfiguration as above, and where there is no device of that number.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

}  // namespace recollect::cuda
