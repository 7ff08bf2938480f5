// A Config as text.
#include <algorithm>

#include <fmt/format.h>

#include "launch/config/keys.h"
#include "launch/config/read.h"

namespace recollect {

namespace {

// Of the keys in a section: two blanks for each level.
std::string indent(const std::string& section) {
  if (section.empty()) return "";
  return std::string(2 + 2 * static_cast<std::size_t>(std::count(section.begin(), section.end(), '.')), ' ');
}

}  // namespace

std::string dump_resolved(const Config& config) {
  std::string text;
  std::string section;
  const KeyTable table;
  for (const ConfigKey& key : table.keys()) {
    // An inner section follows the keys of its outer one in the table.
    if (key.section != section && !key.section.empty())
      text += fmt::format("{}{}:\n", indent(key.section).substr(2),
                          key.section.substr(key.section.rfind('.') + 1));
    section = key.section;
    text += fmt::format("{}{}: {}\n", indent(section), key.name, key.print(config));
  }
  return text;
}

std::map<std::string, std::string> flatten(const Config& config) {
  std::map<std::string, std::string> flat;
  const KeyTable table;
  for (const ConfigKey& key : table.keys()) flat[key.path()] = key.print(config);
  return flat;
}

}  // namespace recollect
