// A DeviceModel as a small YAML file: one line a rate, in the units of device_model.h.
#pragma once

#include <string>

#include "checkpointing/device_model.h"

namespace recollect {

std::string to_yaml(const DeviceModel& device);

// A preset's name, or the path of a file; a file must give every rate, and nothing else. Error
// kConfiguration, naming the file and the key.
DeviceModel read_device_model(const std::string& name_or_path);

}  // namespace recollect
