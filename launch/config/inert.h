// Keys that were given and change nothing. A switch without effect is a mistake in the configuration: whoever
// set it believes in something that does not happen.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launch/config/validate.h"

namespace recollect {

// The keys that somebody gave, that no part of the run will look at, and whose value is not the one they
// would have had anyway (`otherwise`): a resolved dump states every key, and must be accepted. `spoken`: those
// that the command line gives and the file does not. Of a setting that the optimizer lacks they are refused
// whatever their value.
std::vector<Finding> find_inert(const Config& config, const Config& otherwise,
                                const std::set<std::string>& spoken = {});

// Key -> "no effect with ...": those that only the length of the run leaves without effect. A trial run of a
// few steps is no mistake: the reports carry a remark.
std::map<std::string, std::string> find_unreached(const Config& config, const Config& otherwise);

}  // namespace recollect
