// The fourth promise in words: what each checkpointing switch saved, what it moved, and how long the compute stream
// waited for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/session.h"

namespace recollect {

// switch -> sentence, of this rank; empty where nothing is checkpointed. `steps`: how many the session has taken.
std::vector<std::pair<std::string, std::string>> checkpointing_report(const Config& config, const Session& session,
                                                                      int64_t steps);

}  // namespace recollect
