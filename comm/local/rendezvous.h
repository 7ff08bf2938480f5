// Where the processes of a run find each other.
#pragma once

#include <string>

namespace recollect::local {

// The shared-memory object of a run while its ranks join: "/recollect-1000-6c62272e07bb0142". One per user
// and run id.
std::string segment_name(const std::string& run_id);

}  // namespace recollect::local
