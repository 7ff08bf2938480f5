// A Config as text.
#include <fmt/format.h>

#include "launch/config/keys.h"
#include "launch/config/read.h"

namespace recollect {

std::string dump_resolved(const Config& config) {
  std::string text;
  std::string section;
  const KeyTable table;
  for (const ConfigKey& key : table.keys()) {
    if (key.section != section && !key.section.empty()) text += fmt::format("{}:\n", key.section);
    section = key.section;
    text += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", key.name, key.print(config));
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
