// The command line: runs the command that the words name, prints an Error once per rank, and returns the exit
// code.
#pragma once

#include <string_view>

namespace recollect {

// `commit`: what --version says of the sources (version.h).
int run_program(int argc, char** argv, std::string_view commit);

}  // namespace recollect
