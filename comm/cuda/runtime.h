// A DeviceRuntime that is one CUDA GPU of this process.
#pragma once

#include <memory>

#include "comm/device/device_runtime.h"

namespace recollect::cuda {

// Makes the device current for the calling thread. Throws Error kConfiguration if there is no such device.
std::unique_ptr<device::DeviceRuntime> make_device_runtime(int ordinal);

}  // namespace recollect::cuda
