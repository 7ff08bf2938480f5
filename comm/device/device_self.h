// A world of one on a device: no peers, so every collective is at most a copy on the stream.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/device/device_runtime.h"

namespace recollect::device {

std::unique_ptr<Communicator> make_device_self(std::shared_ptr<DeviceRuntime> runtime);

}  // namespace recollect::device
