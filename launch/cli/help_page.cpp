#include "launch/cli/help_page.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options.hpp>

namespace recollect {

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kWidestName = 32;  // else what it means is a line lower

// Words from column `indent` on, as many lines as they take; the first stands behind `begun`.
std::string wrapped(const std::string& begun, std::size_t indent, std::string_view text) {
  std::string lines = begun;
  std::size_t column = begun.size();
  std::istringstream words{std::string(text)};
  bool first_of_line = true;
  for (std::string word; words >> word; first_of_line = false) {
    if (!first_of_line && column + 1 + word.size() > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
      first_of_line = true;
    }
    lines += (first_of_line ? "" : " ") + word;
    column += word.size() + (first_of_line ? 0 : 1);
  }
  return lines + "\n";
}

struct Explained {
  std::string name;
  std::string help;
};

std::string table_text(const std::vector<Explained>& rows) {
  std::size_t width = 0;
  for (const Explained& row : rows)
    if (row.name.size() <= kWidestName) width = std::max(width, row.name.size());
  std::string text;
  for (const Explained& row : rows) {
    std::string begun = fmt::format("  {:<{}}  ", row.name, width);
    if (row.name.size() > width) {
      text += "  " + row.name + "\n";
      begun = std::string(width + 4, ' ');
    }
    text += wrapped(begun, width + 4, row.help);
  }
  return text;
}

std::vector<Explained> words_of(const Command& command) {
  std::vector<Explained> rows;
  for (const Argument& argument : command.arguments)
    rows.push_back({std::string(argument.name), std::string(argument.help)});
  const OptionTable table = command.option_table();
  for (const auto& option : table.options()) rows.push_back({option_name(*option), option->description()});
  if (command.run) return rows;
  for (const std::string_view second : second_words(command))
    rows.push_back(
        {std::string(second),
         std::string(find_command({std::string(command.name), std::string(second)}).command->help)});
  return rows;
}

std::string usage_line(const Command& command) {
  const std::string words =
      command.run ? std::string(command.usage) : fmt::format("{} ...", fmt::join(second_words(command), "|"));
  return wrapped(fmt::format("usage: recollect {}{}", command.name, words.empty() ? "" : " "), 9, words);
}

// Of the command itself, or of the first that begins with its name.
std::string_view example_of(const Command& command) {
  if (command.run) return command.example;
  const std::string second(second_words(command).front());
  return find_command({std::string(command.name), second}).command->example;
}

}  // namespace

std::string value_name(const boost::program_options::option_description& option) {
  return option.semantic()->max_tokens() == 0 ? "" : option.semantic()->name();
}

std::string option_name(const boost::program_options::option_description& option) {
  namespace style = boost::program_options::command_line_style;
  const std::string letter = option.canonical_display_name(style::allow_dash_for_short);
  const std::string value = value_name(option);
  return fmt::format("{}--{}{}{}", letter.starts_with('-') ? letter + ", " : "", option.long_name(),
                     value.empty() ? "" : " ", value);
}

std::string usage() {
  std::vector<Explained> rows;
  for (const Command& command : commands())
    if (!command.of_two_words()) rows.push_back({std::string(command.name), std::string(command.help)});
  return "usage: recollect COMMAND ...\n\n" + table_text(rows) + "\n" +
         wrapped(
             "", 0,
             "COMMAND --help says more of one, --version what this program is made of, `recollect doctor` "
             "whether it works here.") +
         "\nexample: recollect run --nproc-per-node 2 train config.yaml\n";
}

std::string usage_of(const Command& command) {
  std::string text = usage_line(command) + "\n" + wrapped("", 0, command.help) + "\n";
  if (const std::string words = table_text(words_of(command)); !words.empty()) text += words + "\n";
  if (!command.notes.empty()) text += wrapped("", 0, command.notes) + "\n";
  if (!command.run) text += fmt::format("recollect {} WORD --help says more of one.\n\n", command.name);
  return text + fmt::format("example: {}\n", example_of(command));
}

std::string usage_hint(const Command* command) {
  if (!command) return "recollect --help lists the commands";
  const std::string usage = usage_line(*command);
  const std::size_t line = usage.find('\n');
  return fmt::format("{}{}\n  recollect {} --help says more", usage.substr(0, line),
                     line + 1 == usage.size() ? "" : " ...", command->name);
}

}  // namespace recollect
