// The name under which the processes of a run find each other.
#pragma once

#include <string>

namespace recollect::local {

// Returns the name of a run's shared-memory object while its ranks join, such as
// "/recollect-1000-6c62272e07bb0142". There is one per user and run id.
std::string segment_name(const std::string& run_id);

}  // namespace recollect::local
