#include "launch/cli/man_page.h"

#include <cctype>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options.hpp>

#include "launch/cli/commands.h"
#include "launch/cli/help_page.h"
#include "launch/config/keys.h"

namespace recollect {

namespace {

// As docs/launching.md has them; a test holds one against the other.
constexpr std::pair<std::string_view, std::string_view> kExitCodes[] = {
    {"0", "done"},
    {"2", "configuration: a key, a flag, a switch without effect"},
    {"3", "an input was rejected: data, a model's files"},
    {"4, 5", "too little device memory; too little host memory, or no more threads"},
    {"6",
     "storage: a disk that is full or fails, a folder that another run has, a file that the system refuses "
     "to read"},
    {"7", "a loss, or the trained parameters, are not finite"},
    {"8", "the ranks disagree"},
    {"9", "a peer was lost, or is late"},
    {"10", "integrity: what was recomputed or brought back is not what it was"},
    {"70", "an internal error: a bug"},
    {"75", "preempted, and the state of the last step is saved where the run saves snapshots"},
    {"130", "stopped by Ctrl-C (SIGINT)"},
};

// Text that no formatter takes for anything else.
std::string roff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) escaped += c == '\\' ? std::string("\\e") : c == '-' ? "\\-" : std::string(1, c);
  return escaped;
}

std::string paragraph(std::string_view text) { return text.empty() ? "" : ".PP\n" + roff(text) + "\n"; }

std::string entry(std::string_view name, std::string_view help) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(help));
}

std::string sentence(std::string_view text) {
  std::string whole = roff(text) + ".";
  whole.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(whole.front())));
  return whole + "\n";
}

std::string command_text(const Command& command) {
  std::string text = ".SS recollect " + roff(command.name);
  text += (command.usage.empty() ? "" : " " + roff(command.usage)) + "\n" + sentence(command.help);
  for (const Argument& argument : command.arguments) text += entry(argument.name, argument.help);
  const OptionTable table = command.option_table();
  for (const auto& option : table.options()) text += entry(option_name(*option), option->description());
  text += paragraph(command.notes);
  return text + fmt::format(".PP\nFor example:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", roff(command.example));
}

std::string value_text(const ConfigKey& key, const Config& defaults) {
  const std::string kind = key.choices.empty() ? key.type : fmt::format("{}", fmt::join(key.choices, " | "));
  return fmt::format("{} ({}): {}.", kind, key.print(defaults), key.help);
}

// Those of all model families, each once.
std::string keys_text() {
  std::string text;
  std::set<std::string> named;
  for (const ModelFamily& family : model_families()) {
    const KeyTable& table = KeyTable::of(family);
    const Config defaults = table.defaults();
    for (const ConfigKey& key : table.keys())
      if (named.insert(key.path()).second) text += entry(key.path(), value_text(key, defaults));
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(
      ".\\\" Made by `recollect man`.\n"
      ".TH RECOLLECT 1 \"\" \"recollect {}\" \"User Commands\"\n.nh\n"
      ".SH NAME\nrecollect \\- trains transformers whose activations do not fit in memory\n"
      ".SH SYNOPSIS\n\\fBrecollect\\fR \\fICOMMAND\\fR ...\n.br\n\\fBrecollect\\fR \\-\\-help | "
      "\\-\\-version\n"
      ".SH DESCRIPTION\n",
      RECOLLECT_VERSION);
  text +=
      roff(
          "It recomputes activations, partitions them over the tensor-parallel ranks, sends them to the host "
          "or "
          "on to the disk, and has them back just before backward needs them. Training stays the same to the "
          "last bit. A configuration says what to train, on what, and how; COMMAND --help says of a command "
          "what stands here.") +
      "\n.SH COMMANDS\n";
  for (const Command& command : commands())
    if (command.run) text += command_text(command);
  text +=
      ".SH CONFIGURATION\n" +
      roff(
          "The keys of CONFIG.yaml, which is a mapping of sections, with their defaults. On the command line "
          "a key is section.key=value, wins over the file, and of several words for one key the last wins.") +
      "\n" + keys_text() + ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) text += entry(code, std::string(meaning) + ".");
  return text + paragraph("Under recollect run also whatever the program that it starts ends with.");
}

void man_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  if (!parse_options(words).empty()) throw UsageError("man takes no further words");
  fmt::print("{}", man_page());
}

}  // namespace recollect
