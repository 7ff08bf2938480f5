// A DeviceModel as a small YAML file: one line a rate, in the units of device_model.h.
#pragma once

#include <map>
#include <string>

#include "checkpointing/device_model.h"
#include "comm/communicator.h"

namespace recollect {

std::string to_yaml(const DeviceModel& device);

// A preset's name, or the path of a file; a file must give every rate but those of a disk, and nothing else.
// Error kConfiguration, naming the file and the key.
DeviceModel read_device_model(const std::string& name_or_path);

// Collective. Error kRanksDisagree, naming the rates, where the ranks have different ones: they could choose
// different programs.
void check_device_models_agree(const DeviceModel& device, Communicator& communicator);

}  // namespace recollect
