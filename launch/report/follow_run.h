// `recollect report RUN --follow`: writes the page of a run again and again while the run goes on, and once more when it has
// ended. Reads what the run writes and nothing else; the page needs no server, it reads itself anew.
#pragma once

#include <string>

namespace recollect {

// Until the run ends, or SIGINT or SIGTERM comes. Error kInput where the folder holds no run, or what it holds of one that has
// ended is not whole; kStorage where the page cannot be written.
void follow_run(const std::string& folder, const std::string& page);

}  // namespace recollect
