// The commands of the program. To add a command is to add a row to the table in commands.cpp; its page (help_page.h), its
// part of the manual page (man_page.h) and what shells complete (completion.h) are made of that and of the options that
// its parser takes.
//
// What may stand where an argument or an option's value stands is in its name: a FILE or PATH, a FOLDER,
// CONFIG.yaml, section.key=value, a word in small letters itself, several of these with | between them; anything
// else is a text of the user's own.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

struct Argument {
  std::string_view name;
  std::string_view help;
};

struct Command {
  std::string_view name;   // "train"; or "config show", behind the row of "config"
  std::string_view usage;  // what stands behind the name
  std::string_view help;   // one line
  // `words` stand behind the command's name. MPI is started in `mpi` where the command needs it. Null for the first
  // word of commands of two.
  void (*run)(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) = nullptr;
  OptionTable (*options)() = nullptr;     // null: none
  std::span<const Argument> arguments{};  // in their order; more words are like the last
  std::string_view notes{};               // what else is good to know
  std::string_view example{};             // a line for a shell

  OptionTable option_table() const { return options ? options() : OptionTable(); }
  bool of_two_words() const { return name.find(' ') != std::string_view::npos; }
};

std::span<const Command> commands();
// UsageError where a configuration's file is given to an option, as other programs take it: --config FILE.
void refuse_configuration_option(const Command& command, const Words& words);
// The second words of the commands that begin with that one.
std::vector<std::string_view> second_words(const Command& first);

struct NamedCommand {
  const Command* command = nullptr;  // null: none of that name
  std::size_t words = 0;             // its name has
};
// The command whose name the words begin with, of two words if there is one.
NamedCommand find_command(const Words& words);

}  // namespace recollect
