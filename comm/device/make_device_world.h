// make_device_world() of comm/device_world.h with the device and the library as parameters, so that tests can
// replace them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/device/device_runtime.h"
#include "comm/device/watchdog.h"
#include "comm/device_world.h"
#include "comm/nccl/api.h"

namespace recollect::device {

struct DeviceWorldParts {
  std::shared_ptr<DeviceRuntime> runtime;
  std::function<nccl::Api()> load_nccl;  // called if NCCL is needed
  std::function<const char*(const char* name)> environment;
  std::function<void(const std::string& name, const std::string& value)> set_environment;
  std::function<void(const std::string& why)> end_process = device::end_process;
};

std::unique_ptr<Communicator> make_device_world(Communicator& world, const DeviceWorldOptions& options,
                                                const DeviceWorldParts& parts);

}  // namespace recollect::device
