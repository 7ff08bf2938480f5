#include "launch/config/toml_document.h"

#include <sstream>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
#include <fmt/format.h>
#include <toml++/toml.h>

namespace recollect {

namespace {

Place place_of(const std::string& name, const toml::source_region& source) {
  const auto line = static_cast<int>(source.begin.line), column = static_cast<int>(source.begin.column);
  return {fmt::format("{}:{}:{}", name, line, column), line, column};
}

YamlNode tree_of_toml(const std::string& name, const toml::node& value);

YamlNode scalar_of_toml(const toml::node& value) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.plain = !value.is_string();
  if (const auto* text = value.as_string())
    node.text = text->get();
  else if (const auto* number = value.as_floating_point())
    node.text = fmt::format("{}", number->get());
  else if (const auto* whole = value.as_integer())
    node.text = fmt::format("{}", whole->get());
  else if (const auto* truth = value.as_boolean())
    node.text = truth->get() ? "true" : "false";
  else
    value.visit([&](const auto& date) {
      std::ostringstream text;
      text << date;
      node.text = text.str();
    });
  return node;
}

YamlNode tree_of_toml(const std::string& name, const toml::node& value) {
  YamlNode node;
  if (const toml::table* table = value.as_table()) {
    node.kind = YamlNode::Kind::kMapping;
    for (const auto& [key, inner] : *table) {
      YamlNode name_of_key;
      name_of_key.kind = YamlNode::Kind::kScalar;
      name_of_key.text = std::string(key.str());
      name_of_key.place = place_of(name, key.source());
      node.entries.push_back({std::move(name_of_key), tree_of_toml(name, inner)});
    }
  } else if (const toml::array* array = value.as_array()) {
    node.kind = YamlNode::Kind::kSequence;
    for (const toml::node& item : *array) node.items.push_back(tree_of_toml(name, item));
  } else {
    node = scalar_of_toml(value);
  }
  node.place = place_of(name, value.source());
  return node;
}

}  // namespace

bool is_toml(std::string_view name, std::string_view text) {
  if (name.ends_with(".toml")) return true;
  while (!text.empty()) {  // the first line that says something
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    return line.size() > 2 && line.front() == '[' && line.back() == ']' &&
           line.find_first_of(", \"'") == std::string_view::npos && text.find('=') != std::string_view::npos;
  }
  return false;
}

YamlNode parse_toml(const std::string& name, std::string_view text, Problems& problems) {
  const toml::parse_result result = toml::parse(text);
  if (result) return tree_of_toml(name, result.table());
  problems.add(place_of(name, result.error().source()),
               fmt::format("not valid TOML: {}", result.error().description()));
  YamlNode refused;
  refused.kind = YamlNode::Kind::kRefused;
  return refused;
}

}  // namespace recollect
