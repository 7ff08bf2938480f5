// A Device that is one CUDA GPU. absent.cpp replaces it in a build without the backend.
#pragma once

#include <memory>
#include <string>

#include "engine/runtime/device.h"

namespace recollect::cuda {

// Whether each kind of run is captured once as a CUDA graph and then replayed. Ranks with common collectives
// must all replay or all not: with kRequired a run that cannot be captured is an Error.
enum class Graphs { kNone, kPreferred, kRequired };

struct DeviceOptions {
  int ordinal = 0;  // among the devices that this process sees
  bool pinned_required =
      false;  // throw Error kHostMemory, instead of warning, if the host arena cannot be pinned
  Graphs graphs = Graphs::kPreferred;
  bool shareable = false;  // makes the arena shareable where possible, for NCCL's symmetric windows
};

bool is_built();  // whether this program has the backend

// Returns how many devices this process can use. If there is none, throws Error kConfiguration, which names
// what is missing: the backend in this build, a driver, or a device.
int device_count();

// Returns "GPU-0123...", the same in every process that sees this device, whatever its ordinal there.
std::string hardware_id(int ordinal);

// Throws Error kConfiguration as above, or if there is no device of that ordinal.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

}  // namespace recollect::cuda
