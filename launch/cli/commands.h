// The commands of the program. To add a command is to add a line to the table in commands.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

struct Command {
  const char* name = "";
  const char* arguments = "";
  const char* help = "";  // one line
  // `words` stand behind the command's name. MPI is started in `mpi` where the command needs it.
  void (*run)(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) = nullptr;
  const char* details = "";  // what its own --help says of its words, a line for each
};

std::span<const Command> commands();
std::string usage();
std::string usage_of(const Command& command);
// Two lines at most, for who has used it wrongly; of the program where `command` is null.
std::string usage_hint(const Command* command);

}  // namespace recollect
