// The rates of this machine, by which times are shown where device.model is the preset cpu, which is of no machine in
// particular. The first run or estimate of a model measures them within about a second; they are kept in the user's cache
// folder for the same model on the same processor, cores, ranks and build. Nothing is decided by them: a plan follows from the
// configuration alone, whatever a machine was busy with when it was measured.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Collective over the ranks of a resolved run, whose threads are agreed on: sets device.of_machine on all of them, or on none.
// All measure at the same time, as they will train; what the first finds goes for all. Returns why there is nothing: "this
// machine is busy ..."; "" where there is, or where times go by another model.
std::string learn_machine_rates(Config& config, Communicator& world);

// The same of ranks that there are not, which are threads meanwhile.
std::string learn_machine_rates(Config& config);

// $XDG_CACHE_HOME/recollect, below ~/.cache where the variable is not set; "" where there is no such folder.
std::string rates_folder();

}  // namespace recollect
