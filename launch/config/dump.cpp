// A Config as text.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "launch/config/keys.h"
#include "launch/config/read.h"

namespace recollect {

namespace {

constexpr std::size_t kCommentColumn = 48;
constexpr const char* kStepsOfEpochs = "# max_steps: epochs x samples / global_batch_size";

// Of the keys in a section: two blanks for each level.
std::string indent(const std::string& section) {
  if (section.empty()) return "";
  return std::string(2 + 2 * static_cast<std::size_t>(std::count(section.begin(), section.end(), '.')), ' ');
}

// `line` finishes the line of a key, "name: value".
std::string dump(const Config& config,
                 const std::function<std::string(const ConfigKey&, const std::string&)>& line) {
  std::string text;
  std::string section;
  const KeyTable& table = KeyTable::of(config.model.family());
  for (const ConfigKey& key : table.keys()) {
    // An inner section follows the keys of its outer one in the table.
    if (key.section != section && !key.section.empty())
      text += fmt::format("{}{}:\n", indent(key.section).substr(2),
                          key.section.substr(key.section.rfind('.') + 1));
    section = key.section;
    const bool open = config.training.epochs > 0 && key.path() == "training.max_steps";
    text += open ? indent(section) + kStepsOfEpochs
                 : line(key, fmt::format("{}{}: {}", indent(section), key.name, key.print(config)));
    text += '\n';
  }
  return text;
}

std::string origin(const Config& config, const std::string& key) {
  if (const auto found = config.derived.find(key); found != config.derived.end())
    return "derived from " + found->second;
  const auto found = config.origins.find(key);
  if (found == config.origins.end()) return "default";
  std::string place = found->second.text;  // the command line may hold anything
  std::replace_if(
      place.begin(), place.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return place;
}

}  // namespace

std::string dump_resolved(const Config& config) {
  return dump(config, [](const ConfigKey&, const std::string& line) { return line; });
}

std::string dump_with_origins(const Config& config) {
  return dump(config, [&](const ConfigKey& key, const std::string& line) {
    return fmt::format("{:<{}}  # {}", line, kCommentColumn, origin(config, key.path()));
  });
}

std::string dump_model(const Config::Model& model) {
  Config config;
  config.model = model;
  const KeyTable& table = KeyTable::of(model.family());
  const auto keys_in = [&](std::string_view section) {
    std::string text;
    for (const ConfigKey& key : table.keys())
      if (key.section == section)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key.name, key.print(config));
    return text;
  };
  std::string text = keys_in("model");
  for (const std::string_view section : table.sections())
    if (section.starts_with("model."))
      text += fmt::format(", {}: {{{}}}", section.substr(section.find('.') + 1), keys_in(section));
  return fmt::format("model: {{{}}}\n", text);
}

std::map<std::string, std::string> flatten(const Config& config) {
  std::map<std::string, std::string> flat;
  const KeyTable& table = KeyTable::of(config.model.family());
  for (const ConfigKey& key : table.keys()) flat[key.path()] = key.print(config);
  return flat;
}

}  // namespace recollect
