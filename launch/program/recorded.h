// What a file says, in a comment that is its first line, of the conditions under which it was written: the
// code and the instructions that computed then, or the machine that was measured. Whoever starts from it
// under other ones hears what that changes. A file without the line has nothing to say.
#pragma once

#include <string>
#include <vector>

#include "checkpointing/switch_effects.h"
#include "launch/config/config.h"

namespace recollect {

// For the head of what a run writes, and of what is measured on this machine.
std::string recorded_line(const Config& config);
std::string measured_line();

// A remark on each file that this run starts from (its configuration, its plan, its device's rates) and that
// was written under other conditions.
std::vector<Remark> recorded_elsewhere(const Config& config);

}  // namespace recollect
