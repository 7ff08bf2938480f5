// `recollect report RUN --follow`: writes the page of a run repeatedly while the run continues, and a last
// time after its end. It reads only the run's files. The page needs no server; it reloads itself.
#pragma once

#include <string>

namespace recollect {

// Returns when the run ends, or on SIGINT or SIGTERM. Throws kInput if the folder holds no run, or an ended
// run with incomplete files; kStorage if the page cannot be written.
void follow_run(const std::string& folder, const std::string& page);

}  // namespace recollect
