#include "launch/config/schema.h"

#include <cmath>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

// Bytes as scalars.cpp reads them.
constexpr const char* kBytes = "^[+]?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+]?[0-9]+|( ?(KiB|MiB|GiB|TiB)))?$";

Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

void add_range(Json& schema, const ValueRange& range) {
  if (std::isfinite(range.low)) schema[range.low_open ? "exclusiveMinimum" : "minimum"] = number(range.low);
  if (std::isfinite(range.high))
    schema[range.high_open ? "exclusiveMaximum" : "maximum"] = number(range.high);
}

// The values of a key that is given by this name: an alias may stand for fewer of them.
Json choices(const ConfigKey& key, const std::string& name) {
  Json words = Json::array();
  for (const std::string& word : key.choices)
    if (!find_foreign_value(key.path(), name, word)) words.push_back(word);
  for (const std::string& word : key.old_choices) words.push_back(word);
  return words;
}

// Of optimizer.groups.
Json groups_schema() {
  const Json text{{"type", "string"}, {"minLength", 1}};
  Json match, entry{{"type", "object"}, {"additionalProperties", false}};
  match["anyOf"] = Json::array({text, {{"type", "array"}, {"items", text}, {"minItems", 1}}});
  entry["required"] = Json::array({"match"});
  entry["properties"] = {{"match", match},
                         {"learning_rate", {{"type", "number"}, {"exclusiveMinimum", 0}}},
                         {"lr", {{"type", "number"}, {"exclusiveMinimum", 0}}},
                         {"weight_decay", {{"type", "number"}, {"minimum", 0}}},
                         {"frozen", {{"type", "boolean"}}}};
  return {{"type", "array"}, {"items", entry}};
}

Json type_schema(const ConfigKey& key, const std::string& name) {
  Json schema;
  if (key.type == "boolean" || key.type == "integer" || key.type == "number") {
    schema["type"] = key.type;
    add_range(schema, key.range);
  } else if (key.type == "choice") {
    schema = {{"type", "string"}, {"enum", choices(key, name)}};
  } else if (key.type == "bytes") {
    Json count{{"type", "integer"}};
    add_range(count, key.range);
    schema["anyOf"] = {count, {{"type", "string"}, {"pattern", kBytes}}};
  } else if (key.type == "groups") {
    schema = groups_schema();
  } else if (key.type == "patterns") {
    schema = {{"type", "object"}, {"additionalProperties", {{"type", "number"}, {"exclusiveMinimum", 0}}}};
  } else if (key.type == "texts") {
    Json entry{{"type", "string"}, {"minLength", 1}};
    if (!key.choices.empty()) entry["enum"] = choices(key, name);
    if (key.range.numbers) entry = {{"type", {"number", "string"}}};
    Json list{{"type", "array"}, {"items", entry}};
    if (key.range.required) list["minItems"] = 1;
    schema["anyOf"] = {entry, list};
  } else {
    schema["type"] = "string";
    if (key.range.required) schema["minLength"] = 1;
  }
  return schema;
}

// A value as the table prints it, in the type that the schema gives it.
Json default_of(const ConfigKey& key, const Config& defaults) {
  Problems problems;
  const std::string printed = key.print(defaults);
  const YamlNode node = parse_document("default", printed, problems);
  if (key.type == "texts" || key.type == "groups") {
    Json list = Json::array();
    for (const YamlNode& item : node.items) list.push_back(item.text);
    return list;
  }
  if (key.type == "patterns") return Json::object();
  const bool text = key.type == "text" || key.type == "choice" || node.text.find("iB") != std::string::npos;
  return text ? Json(node.text) : Json::parse(node.text);
}

Json key_schema(const ConfigKey& key, const std::string& name, const Config& defaults) {
  Json schema = type_schema(key, name);
  schema["description"] = name == key.name ? key.help : fmt::format("{}: {}", key.name, key.help);
  schema["default"] = default_of(key, defaults);
  return schema;
}

Json section_schema(const KeyTable& table, const std::string& section) {
  Json schema{{"type", "object"}, {"additionalProperties", false}};
  if (const std::string_view help = table.section_help(section); !help.empty())
    schema["description"] = std::string(help);
  Json properties = Json::object(), one_of_each = Json::array();
  const Config defaults = table.defaults();
  for (const ConfigKey& key : table.keys()) {
    if (key.section != section) continue;
    std::vector<std::string> names = key.aliases;
    names.insert(names.begin(), key.name);
    for (std::size_t i = 0; i < names.size(); ++i) {
      properties[names[i]] = key_schema(key, names[i], defaults);
      for (std::size_t j = 0; j < i; ++j)
        one_of_each.push_back({{"not", {{"required", {names[j], names[i]}}}}});
    }
  }
  if (section == "model")  // an editor does not know the type: what other families have is admitted
    for (const ModelFamily& other : model_families())
      for (const ConfigKey& key : KeyTable::of(other).keys())
        if (key.section == section && !properties.contains(key.name))
          properties[key.name] = key_schema(key, key.name, KeyTable::of(other).defaults());
  const auto add_sections = [&](const KeyTable& of) {
    for (const std::string_view inner : of.sections()) {
      const std::string leaf(inner.substr(inner.rfind('.') + 1));
      const std::string path = section.empty() ? leaf : section + "." + leaf;
      if (inner == path && of.is_section(section, leaf) && !properties.contains(leaf))
        properties[leaf] = section_schema(of, path);
    }
  };
  add_sections(table);
  if (section == "model")
    for (const ModelFamily& other : model_families()) add_sections(KeyTable::of(other));
  schema["properties"] = properties;
  if (!one_of_each.empty()) schema["allOf"] = one_of_each;
  return schema;
}

}  // namespace

nlohmann::ordered_json config_schema(const KeyTable& table) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Recollect configuration"}};
  schema.update(section_schema(table, ""));
  schema["description"] = "What a run trains, on what, and how.";
  return schema;
}

}  // namespace recollect
