// How the words behind a command are read: options, a configuration file, and the keys that win over it.
#pragma once

#include <string>
#include <vector>

#include "engine/core/error.h"
#include "launch/config/validate.h"

namespace boost::program_options {
class options_description;
}

namespace recollect {

using Words = std::vector<std::string>;
// Of a command: what its parser takes, with what each is for. Help, manual page and completion are made of it too;
// what is to be given with an option is in its value's name (launch/cli/commands.h).
using OptionTable = boost::program_options::options_description;

// Words that mean nothing: kConfiguration. Whoever knows all commands shows their usage.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& what) : Error(ExitCode::kConfiguration, what) {}
};

// Of a command that reads a configuration: --set, which others are built upon.
OptionTable key_options();

// Stores the command's own options where they say, and returns all other words in order, --set ones last.
// UsageError for unknown options.
Words parse_options(const Words& words, const OptionTable& own);
Words parse_options(const Words& words);

// Reads "CONFIG.yaml section.key=value ...". A command that runs nothing takes kAnyBuild.
Config read_config_words(const std::string& command, const Words& words, const BuildFeatures& features = {});

}  // namespace recollect
