// `recollect man`: the manual page, made of the tables of commands, options and keys.
#pragma once

#include <memory>
#include <string>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

// In the macros that groff's and mandoc's `man` read.
std::string man_page();

void man_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
