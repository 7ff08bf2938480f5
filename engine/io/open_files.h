// The limit on open files, and what to do if it is too low.
#pragma once

#include <string>

namespace recollect {

// Returns a hint for errno of a failed open, pipe or socket; "" if the error has another cause.
std::string open_files_hint(int error);

}  // namespace recollect
