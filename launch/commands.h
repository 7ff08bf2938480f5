// The commands of the program, and how the words behind one of them are read. To add a command is to add a
// line to the table in commands.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "comm/mpi.h"
#include "launch/config/config.h"

namespace recollect {

using Words = std::vector<std::string>;

struct Command {
  const char* name;
  const char* arguments;
  const char* help;  // one line
  // `words` stand behind the command's name. MPI is started in `mpi` where the command needs it.
  void (*run)(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);
  const char* details = "";  // what its own --help says of its words, a line for each
};

std::span<const Command> commands();
std::string usage();
std::string usage_of(const Command& command);

// Stores the command's own options where they say, and returns all other words in order, --set ones last.
// Error kConfiguration, with the usage, for unknown options.
Words parse_options(const Words& words, const boost::program_options::options_description& own = {});

// Reads "CONFIG.yaml section.key=value ...".
Config read_config_words(const std::string& command, const Words& words);

}  // namespace recollect
