// What --help prints, and what somebody who has misused a command is told of it: 80 columns wide, and of one command
// no longer than a screen.
#pragma once

#include <string>

#include "launch/cli/commands.h"

namespace recollect {

std::string usage();
std::string usage_of(const Command& command);
// Two lines at most, for who has used it wrongly; of the program where `command` is null.
std::string usage_hint(const Command* command);

// "-r, --redirects 0-3", as one gives it.
std::string option_name(const boost::program_options::option_description& option);
// What is to be given with it; "" for an option without a value.
std::string value_name(const boost::program_options::option_description& option);

}  // namespace recollect
