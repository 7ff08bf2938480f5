#include "launch/config/overrides.h"

#include <fmt/format.h>

#include "engine/core/printable.h"

namespace recollect {

std::vector<Override> split_overrides(const std::vector<std::string>& words, Problems& problems) {
  std::vector<Override> overrides;
  bool expecting = false;  // after a --set
  for (const std::string& argument : words) {
    if (argument == "--set" && !expecting) {
      expecting = true;
      continue;
    }
    expecting = false;
    const std::string word = argument.starts_with("--set=") ? argument.substr(6) : argument;
    const Place place{fmt::format("command line: {}", word), 0, 0};
    const std::size_t equals = word.find('=');
    if (const std::size_t bad = find_invalid_text(word); bad != std::string::npos) {
      const bool control = utf8_length(std::string_view(word).substr(bad)) > 0;
      problems.add({"command line", 0, 0},
                   control ? "an override holds a control character" : "an override is not UTF-8 text");
    } else if (equals == std::string::npos || equals == 0) {
      problems.add(place, "expected section.key=value");
    } else {
      overrides.push_back({word, word.substr(0, equals), word.substr(equals + 1), place});
    }
  }
  if (expecting) problems.add({"command line: --set", 0, 0}, "expected section.key=value after it");
  return overrides;
}

const ConfigKey* find_override(const Override& entry, const KeyTable& table, Problems& problems) {
  std::string section, name = entry.key;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.')) {
    const std::string inner = name.substr(0, dot);
    if (!table.is_section(section, inner)) {
      if (section.empty()) name = inner;  // the rest is of no section
      break;
    }
    section += section.empty() ? inner : "." + inner;
    name.erase(0, dot + 1);
  }
  const ConfigKey* key = table.find(section, name);
  if (key || problems.full()) {
    if (!key) problems.add(entry.place, "");
    return key;
  }
  const std::string answer = answer_foreign_key({"", entry.key, entry.value, true});
  if (!answer.empty())
    problems.add(entry.place, answer);
  else if (table.is_section(section, name))
    problems.add(entry.place, fmt::format("'{}' is a section; name one of its keys", entry.key));
  else
    problems.add(entry.place, table.explain_unknown({section, name, entry.value, true}));
  return nullptr;
}

YamlNode override_node(const Override& entry, const ConfigKey& key, Problems& problems) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.place = entry.place;
  node.text = entry.value;
  const bool is_list = (key.type == "texts" || key.type == "groups") && entry.value.starts_with('[');
  if (!is_list && !(key.type == "patterns" && entry.value.starts_with('{'))) return node;
  Problems found;
  const YamlNode list = parse_document("value", entry.value, found);
  if (!found.empty() && key.type == "texts" && entry.value.find(']') + 1 < entry.value.size() &&
      entry.value.find(']') != std::string::npos)
    return node;  // a name that begins like a list: [a].txt
  if (!found.empty()) problems.add(entry.place, found.text());
  return list;
}

}  // namespace recollect
