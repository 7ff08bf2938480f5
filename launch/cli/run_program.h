// The command line: runs the command that the words name, prints an Error once per rank, and returns the exit
// code.
#pragma once

namespace recollect {

int run_program(int argc, char** argv);

}  // namespace recollect
