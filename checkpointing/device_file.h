// A DeviceModel as a small YAML file: one line a rate, in the units of device_model.h; a rate that depends on
// an amount is {amount: rate, ...}. Files of the first version, which knew neither amounts nor threads, are
// read as what they say: one rate each, whatever a rank's threads.
#pragma once

#include <map>
#include <string>

#include "checkpointing/device_model.h"
#include "comm/communicator.h"

namespace recollect {

// Which rates an estimate goes by, in a sentence: a preset's are orders of magnitude, a file's a machine's.
std::string describe(const DeviceModel& device);

std::string to_yaml(const DeviceModel& device);

// A preset's name, or the path of a file; a file must give every rate but those of a disk and those that
// depend on an amount, and nothing else. Error kConfiguration, naming the file and the key.
DeviceModel read_device_model(const std::string& name_or_path);

// Parses the text of such a file. Errors name `path`.
DeviceModel device_model_of(const std::string& path, const std::string& text);

// Collective. Error kRanksDisagree, naming the rates, where the ranks have different ones: they could choose
// different programs.
void check_device_models_agree(const DeviceModel& device, Communicator& communicator);

}  // namespace recollect
