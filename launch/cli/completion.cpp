#include "launch/cli/completion.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "launch/cli/commands.h"
#include "launch/cli/help_page.h"
#include "launch/config/keys.h"

namespace recollect {

namespace {

using Proposals = std::vector<Proposal>;
using OptionEntry = boost::program_options::option_description;

// The tables of the family that the words choose; of all where they do not.
std::vector<const KeyTable*> tables_for(const Words& words) {
  constexpr std::string_view kType = "model.type=";
  for (const std::string& word : words)
    if (word.starts_with(kType))
      if (const ModelFamily* family = find_model_family(word.substr(kType.size())))
        return {&KeyTable::of(*family)};
  std::vector<const KeyTable*> tables;
  for (const ModelFamily& family : model_families()) tables.push_back(&KeyTable::of(family));
  return tables;
}

bool is_called(const ConfigKey& key, std::string_view path) {
  if (key.path() == path) return true;
  const std::string section = key.section.empty() ? "" : key.section + ".";
  return std::any_of(key.aliases.begin(), key.aliases.end(),
                     [&](const std::string& alias) { return section + alias == path; });
}

// Behind "key=": what a key has to choose from. A text may be a file's name.
void add_values(const ConfigKey& key, const std::string& before, Proposals& found) {
  if (key.type == "boolean") {
    for (const char* word : {"true", "false"}) found.push_back({before + word, ""});
  } else if (!key.choices.empty()) {
    for (const std::string& word : key.choices) found.push_back({before + word, ""});
  } else if (key.type == "text" || key.type == "texts") {
    found.push_back({std::string(kAnyFiles), before});
  }
}

// `word` up to `=`: a key, or as much of one as there are sections.
void add_keys(const std::string& before, const std::string& word, const Words& words, Proposals& found) {
  const std::size_t equals = word.find('=');
  std::set<std::string> named;
  for (const KeyTable* table : tables_for(words))
    for (const ConfigKey& key : table->keys()) {
      const std::string path = key.path();
      if (equals != std::string::npos) {
        if (is_called(key, word.substr(0, equals)))
          return add_values(key, before + word.substr(0, equals + 1), found);
      } else if (path.starts_with(word)) {
        const std::size_t dot = path.find('.', word.size());
        const std::string section = path.substr(0, dot);
        const bool whole = dot == std::string::npos;
        if (named.insert(section).second)
          found.push_back({before + section + (whole ? "=" : "."),
                           whole ? key.help : std::string(KeyTable::section_help(section))});
      }
    }
}

// What may stand where something of that kind is to be given (commands.h); `before` is already in the word.
void add_kind(std::string_view kind, const std::string& before, const std::string& word, const Words& words,
              Proposals& found) {
  if (kind == "section.key=value") return add_keys(before, word, words, found);
  constexpr std::pair<std::string_view, std::string_view> kPlaces[] = {
      {"CONFIG.yaml", kAnyYaml},   {"FILE", kAnyFiles},     {"PATH", kAnyFiles},
      {"INPUT", kAnyFiles},        {"PROGRAM", kAnyFiles},  {"FOLDER", kAnyFolders},
      {"RUN_FOLDER", kAnyFolders}, {"SOURCE", kAnyFolders}, {"DESTINATION", kAnyFolders}};
  while (!kind.empty()) {
    const std::string_view one = kind.substr(0, kind.find('|'));
    kind.remove_prefix(std::min(kind.size(), one.size() + 1));
    if (std::islower(static_cast<unsigned char>(one.front())))
      found.push_back({before + std::string(one), ""});
    for (const auto& [name, place] : kPlaces)
      if (one == name) found.push_back({std::string(place), before});
  }
}

const OptionEntry* find_option(const OptionTable& table, std::string word) {
  word = word.substr(0, word.find('='));
  if (word.starts_with("--")) {
    std::replace(word.begin() + 2, word.end(), '_', '-');
    return word.size() == 2 ? nullptr : table.find_nothrow(word.substr(2), false);
  }
  return word.starts_with('-') ? table.find_nothrow(word, false) : nullptr;
}

void add_options(const OptionTable& table, Proposals& found) {
  bool helps = false;
  for (const auto& option : table.options()) {
    found.push_back({"--" + option->long_name(), option->description()});
    helps = helps || option->long_name() == "help";
  }
  if (!helps) found.push_back({"--help", "says more"});
}

// Where in the words behind a command one stands.
struct Position {
  const OptionEntry* option = nullptr;  // whose value is to be given
  std::size_t arguments = 0;            // that stand before it
  std::optional<std::size_t> program;   // behind `run`: the program's place among the words
};

Position position_behind(const Words& rest, const OptionTable& table, bool ends_at_program) {
  Position at;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (at.option) {
      at.option = nullptr;
    } else if (rest[i].size() > 1 && rest[i].front() == '-') {
      const OptionEntry* option = find_option(table, rest[i]);
      if (option && !value_name(*option).empty() && rest[i].find('=') == std::string::npos)
        at.option = option;
    } else if (ends_at_program) {
      at.program = i;
      return at;
    } else {
      ++at.arguments;
    }
  }
  return at;
}

void add_commands(Proposals& found) {
  for (const Command& command : commands())
    if (!command.of_two_words()) found.push_back({std::string(command.name), std::string(command.help)});
}

void add_words_behind(const Words& before, const std::string& word, Proposals& found);

void add_words_of(const Command& command, const Words& rest, const std::string& word, Proposals& found) {
  const OptionTable table = command.option_table();
  const bool launches = command.name == "run";
  const Position at = position_behind(rest, table, launches);
  const std::size_t equals = word.find('=');
  if (at.program) {
    const Words words(rest.begin() + static_cast<std::ptrdiff_t>(*at.program), rest.end());
    if (find_command(words).command) return add_words_behind(words, word, found);
    found.push_back({std::string(kAnyFiles), ""});
  } else if (at.option) {
    add_kind(value_name(*at.option), "", word, rest, found);
  } else if (word.starts_with("--") && equals != std::string::npos) {
    if (const OptionEntry* option = find_option(table, word))
      add_kind(value_name(*option), word.substr(0, equals + 1), word.substr(equals + 1), rest, found);
  } else if (word.starts_with('-')) {
    add_options(table, found);
  } else {
    if (launches) add_commands(found);
    if (!command.arguments.empty())
      add_kind(command.arguments[std::min(at.arguments, command.arguments.size() - 1)].name, "", word, rest,
               found);
  }
}

void add_words_behind(const Words& before, const std::string& word, Proposals& found) {
  const auto [command, taken] = find_command(before);
  if (before.empty()) {
    if (word.starts_with('-')) {
      found = {{"--help", "lists the commands"}, {"--version", "what this program is made of"}};
    } else {
      add_commands(found);
    }
  } else if (command && command->run) {
    add_words_of(*command, {before.begin() + static_cast<std::ptrdiff_t>(taken), before.end()}, word, found);
  } else if (command && before.size() == 1) {
    for (const std::string_view second : second_words(*command))
      found.push_back(
          {std::string(second), std::string(find_command({before[0], std::string(second)}).command->help)});
  }
}

}  // namespace

std::vector<Proposal> complete(const Words& words) {
  Proposals found;
  const std::string word = words.empty() ? "" : words.back();
  add_words_behind(Words(words.begin(), words.end() - (words.empty() ? 0 : 1)), word, found);
  std::erase_if(found, [&](const Proposal& proposal) {
    return !proposal.text.starts_with(':') && !proposal.text.starts_with(word);
  });
  return found;
}

void completion_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const Words shells = parse_options(words);
  if (shells.size() != 1) throw UsageError("completion needs the name of a shell: bash, zsh, fish");
  fmt::print("{}", completion_script(shells.front()));
}

void completion_words_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  std::string text;
  for (const Proposal& proposal : complete(parse_options(words)))
    text += fmt::format("{}\t{}\n", proposal.text, proposal.help);
  fmt::print("{}", text);
}

}  // namespace recollect
