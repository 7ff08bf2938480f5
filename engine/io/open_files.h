// How many files a process may have open, and what to do where that is too few.
#pragma once

#include <string>

namespace recollect {

// For the error of an open, a pipe or a socket; "" where it is about anything else.
std::string open_files_hint(int error);

}  // namespace recollect
