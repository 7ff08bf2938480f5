// The fourth promise in words: what each checkpointing switch saved, what it moved, and how long the compute
// stream waited for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/session.h"

namespace recollect {

// switch -> sentence, of this rank; empty where nothing is checkpointed. `steps`: how many the session has
// taken.
std::vector<std::pair<std::string, std::string>> checkpointing_report(const Config& config,
                                                                      const Session& session, int64_t steps);

// What to say when the compute stream has stood for the disk for more than a tenth of these `seconds`, which
// the session's `steps` took; otherwise nothing.
std::string slow_disk_warning(const Session& session, int64_t steps, double seconds);

}  // namespace recollect
