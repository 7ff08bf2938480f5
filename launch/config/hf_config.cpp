#include "launch/config/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/files.h"
#include "engine/io/hub_folder.h"
#include "engine/io/json.h"
#include "launch/config/keys.h"
#include "launch/config/quantisation.h"

namespace recollect {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 60;  // bytes of a text that a message repeats

std::string shown(const std::string& text) { return printable(text.substr(0, kShown)); }

// The value as a node, so that config.json is held to the same table as YAML.
YamlNode to_node(const json& value, const std::string& path) {
  YamlNode node;
  node.place = {path, 0, 0};
  if (value.is_null()) return node;
  node.kind = value.is_array()    ? YamlNode::Kind::kSequence
              : value.is_object() ? YamlNode::Kind::kMapping
                                  : YamlNode::Kind::kScalar;
  if (value.is_string()) {
    node.text = value.get<std::string>();
    node.plain = false;
  } else if (node.kind == YamlNode::Kind::kScalar) {
    node.text = value.dump();
  }
  return node;
}

// Of tokens that nothing here computes with, such as the end of text.
bool is_kept_token(const std::string& key, const KeyTable& table) {
  return key.ends_with("_token_id") && !table.find("model", key);
}

// A model of text and images describes its text model in an object of its own: that is the file then. Nothing is copied:
// a copy of deep JSON takes a deep stack.
template <typename Json>
Json text_part(Json document) {
  const auto type = document.find("model_type"), part = document.find("text_config");
  if (type == document.end() || part == document.end() || !part->is_object()) return document;
  for (const ModelFamily& family : model_families()) {
    if (family.whole.empty() || *type != family.whole) continue;
    Json text = std::move(*part);
    text["model_type"] = family.type;
    for (auto& [key, value] : document.items())
      if (is_kept_token(key, KeyTable::of(family)) && !text.contains(key)) text[key] = std::move(value);
    return text;
  }
  return document;
}

// The document, or null after a problem. Duplicate keys of the top level are problems: a JSON library keeps
// one of them silently.
json parse(const std::string& text, const Place& place, Problems& problems) {
  std::set<std::string> seen;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth != 1 || event != json::parse_event_t::key) return true;
    const std::string key = parsed.get<std::string>();
    if (!seen.insert(key).second) problems.add(place, fmt::format("duplicate key '{}'", key));
    return true;
  };
  json document;
  try {
    document = json::parse(text, watch);
  } catch (const json::exception& error) {
    problems.add(place, fmt::format("not JSON: {:.200}", error.what()));
    return nullptr;
  }
  if (document.is_object()) return text_part(std::move(document));
  problems.add(place, "not a JSON object");
  return nullptr;
}

void check_mathematics(const json& document, const ModelFamily& family, const Place& place,
                       Problems& problems) {
  for (const auto& [key, value] : family.fixed) {
    const json only = std::visit([](const auto& v) { return json(v); }, value);
    const auto found = document.find(key);
    if (found == document.end() || found->is_null() || *found == only) continue;
    const std::string is = found->is_string()      ? shown(found->get<std::string>())
                           : found->is_primitive() ? found->dump()
                                                   : found->type_name();
    problems.add(place, fmt::format("{}: {} is not supported, only {}", key, is, only.dump()));
  }
  if (const auto found = document.find("pruned_heads"); found != document.end() && !found->empty())
    problems.add(place, "pruned_heads is not supported");
  const auto found = document.find("quantization_config");
  if (found == document.end() || found->empty()) return;
  if (const std::string wrong = unsupported_quantisation(*found); !wrong.empty())
    problems.add(place, "quantization_config: " + wrong);
}

bool is_fixed(const ModelFamily& family, const std::string& name) {
  return std::any_of(family.fixed.begin(), family.fixed.end(),
                     [&](const auto& fixed) { return fixed.first == name; });
}

struct Merged {
  const KeyTable& table;
  const ModelFamily& family;
  Place place;
};

// What an object of the file says of the keys of a section, and of the sections inside it.
void merge_object(const std::string& section, const json& object, const Merged& into, Config& config,
                  Problems& problems) {
  std::map<std::string, std::string> given;  // key -> the name it was given by
  for (const auto& [name, value] : object.items()) {
    if (into.table.is_section(section, name) && !value.is_null()) {
      if (value.is_object())
        merge_object(fmt::format("{}.{}", section, name), value, into, config, problems);
      else
        problems.add(into.place, fmt::format("{}: expected an object, found {}", name, value.type_name()));
      continue;
    }
    const ConfigKey* key = into.table.find(section, name);
    // `type`, `config` and `pretrained` are ours; a null is Transformers' way to say "the default".
    const bool ours = section == "model" && key && name != "model_type" &&
                      (key->name == "type" || key->name == "config" || key->name == "pretrained");
    if (!key || ours || value.is_null()) continue;
    if (section == "model" && is_fixed(into.family, name)) continue;  // checked already
    if (const auto [first, inserted] = given.emplace(key->path(), name); !inserted) {
      problems.add(into.place, fmt::format("{} and {} are the same key", first->second, name));
      continue;
    }
    if (config.origins.contains(key->path())) continue;
    const std::string wrong = key->read(config, to_node(value, into.place.text));
    if (!wrong.empty()) problems.add(into.place, fmt::format("{}: {}", name, wrong));
    config.origins[key->path()] = into.place;
  }
}

// What the file that the model comes from says of tokens, labels and of what its family keeps, which nothing here computes
// with: a model that is trained on still knows its end of text and what its classes are called.
void keep_names(const Config::Model& model, nlohmann::ordered_json& document) {
  if (model.config.empty() && model.pretrained.empty()) return;
  std::string text;
  if (!read_file_text(hf_config_path(model.config, model.pretrained), kMaxDocumentBytes, text).empty())
    return;
  const auto file = text_part(nlohmann::ordered_json::parse(text, nullptr, false));
  const KeyTable& table = KeyTable::of(model.family());
  const std::vector<std::string_view>& kept = model.family().kept;
  const auto layers = static_cast<std::size_t>(model.family().facts(model.values).layers.value);
  for (const auto& [key, value] : file.items()) {
    if (is_kept_token(key, table)) document[key] = value;
    const bool of_other_layers = value.is_array() && value.size() != layers;
    if (std::find(kept.begin(), kept.end(), key) != kept.end() && !of_other_layers) document[key] = value;
    const bool labels = key == "id2label" || key == "label2id";
    if (labels && document.contains(key) && document[key].size() == value.size()) document[key] = value;
  }
}

std::string all_types() {
  std::vector<std::string_view> types;
  for (const ModelFamily& family : model_families()) types.push_back(family.type);
  return fmt::format("{}{}", types.size() > 1 ? "one of " : "", fmt::join(types, ", "));
}

// The family that knows most of the file's keys; of several, the first. "": none knows any.
std::string nearest_family(const json& document) {
  std::string nearest;
  int64_t most = 0;
  for (const ModelFamily& family : model_families()) {
    const KeyTable& table = KeyTable::of(family);
    int64_t known = 0;
    for (const auto& [name, value] : document.items())
      known += name != "model_type" &&
               (table.find("model", name) || table.is_section("model", name) || is_fixed(family, name));
    if (known > most) most = known, nearest = family.type;
  }
  if (most == 0) return "";
  return fmt::format("; by its keys it is nearest to {}, which knows {} of {}", nearest, most,
                     document.size() - document.count("model_type"));
}

}  // namespace

std::string hf_config_path(const std::string& file, const std::string& folder) {
  return file.empty() ? (std::filesystem::path(hub_snapshot(folder)) / "config.json").string() : file;
}

void merge_hf_config(const std::string& path, Config& config, Problems& problems) {
  const Place place{path, 0, 0};
  std::string text;
  if (std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty()) {
    problems.add(place, wrong);
    return;
  }
  json document = parse(text, place, problems);
  if (document.is_null()) return;
  const ModelFamily& family = config.model.family();
  const auto type = document.find("model_type");
  if (!config.origins.contains("model.type") && type != document.end() &&
      !(type->is_string() && find_model_family(type->get<std::string>()))) {
    problems.add(
        place, fmt::format("model_type: expected {}, found {}{}", all_types(),
                           type->is_string() ? fmt::format("the text \"{}\"", shown(type->get<std::string>()))
                                             : type->type_name(),
                           nearest_family(document)));
    return;
  }
  if (config.origins.contains("model.type") && type != document.end() && *type != family.type) {
    problems.add(place, fmt::format("model_type is {}, and model.type is {}",
                                    type->is_string() ? shown(type->get<std::string>()) : type->type_name(),
                                    family.type));
    return;
  }
  family.translate(document);
  check_mathematics(document, family, place, problems);
  if (!document.contains("model_type"))
    problems.add(place, fmt::format("model_type is missing; expected {}", all_types()));
  merge_object("model", document, {KeyTable::of(family), family, place}, config, problems);
}

std::string model_type_of(const std::string& path) {
  std::string text;
  if (!read_file_text(path, kMaxDocumentBytes, text).empty()) return "";
  Problems unsaid;  // whoever reads the file will say it
  const json document = parse(text, {path, 0, 0}, unsaid);
  const auto found = document.find("model_type");
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

Config::Model read_hf_config(const std::string& path) {
  Config config;
  if (const ModelFamily* family = find_model_family(model_type_of(path)))
    config.model = Config::Model(*family);
  Problems problems;
  merge_hf_config(path, config, problems);
  problems.raise();
  config.model.family().complete(config.model.values);
  return config.model;
}

std::string hf_config_text(const Config::Model& model, Task task, const std::string& dtype,
                           const std::vector<std::string>& labels) {
  auto document = nlohmann::ordered_json::parse(model.family().config_json(model.values, task, dtype));
  keep_names(model, document);
  if (document.contains("id2label") && document["id2label"].size() == labels.size()) {
    document["id2label"] = document["label2id"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      document["id2label"][std::to_string(i)] = labels[i];
      document["label2id"][labels[i]] = i;
    }
  }
  return document.dump(2) + '\n';
}

void write_hf_config(const std::string& path, const Config::Model& model, Task task,
                     const std::string& dtype) {
  write_text_file(path, hf_config_text(model, task, dtype));
}

}  // namespace recollect
