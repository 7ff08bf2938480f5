// The rates of this machine. Predicted times use them if device.model is the preset cpu, which describes no
// particular machine. The first run or estimate of a model measures them in about a second. They are stored
// in the user's cache folder for the same model on the same processor, cores, ranks and build. They decide
// nothing: a plan depends only on the configuration, so that the load during a measurement cannot change it.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Collective over the ranks of a resolved run, after they have agreed on threads. Sets device.of_machine on
// all ranks or on none. All ranks measure at the same time, as they will train; the rates of the first rank
// are used by all. Returns the reason if there are no rates ("this machine is busy ..."); "" if there are, or
// if another device model is used.
std::string learn_machine_rates(Config& config, Communicator& world);

// The same for planned ranks, which are threads during the measurement.
std::string learn_machine_rates(Config& config);

// $XDG_CACHE_HOME/recollect, or ~/.cache/recollect if the variable is not set; "" if there is no such folder.
std::string rates_folder();

}  // namespace recollect
