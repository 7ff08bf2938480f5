// The first line of a file is a comment with the conditions under which it was written: the code and the
// instructions of the program, or the measured machine. A run that uses the file under other conditions
// prints what changes. Files without this line are accepted.
#pragma once

#include <string>
#include <vector>

#include "checkpointing/switch_effects.h"
#include "launch/config/config.h"

namespace recollect {

// The first line for files of a run, and for measurements of this machine.
std::string recorded_line(const Config& config);
std::string measured_line();

// A remark for each input file of this run (configuration, plan, device rates) that was written under other
// conditions.
std::vector<Remark> recorded_elsewhere(const Config& config);

}  // namespace recollect
