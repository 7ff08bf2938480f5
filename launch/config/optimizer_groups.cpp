#include "launch/config/optimizer_groups.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/spelling.h"
#include "launch/config/validate.h"

namespace recollect {
namespace {

using GroupSetting = Config::Optimizer::Group;

constexpr const char* kGroupsKey = "optimizer.groups";
constexpr std::array<std::string_view, 4> kGroupKeys = {"match", "learning_rate", "weight_decay", "frozen"};

std::string read_number(const YamlNode& node, const ValueRange& range, std::optional<double>& out) {
  double value = 0;
  std::string wrong = read_value(node, range, value);
  if (wrong.empty()) out = value;
  return wrong;
}

std::string read_entry_of_group(const std::string& name, const YamlNode& value, GroupSetting& group) {
  if (name == "match") return read_value(value, {.required = true}, group.match);
  if (name == "learning_rate" || name == "lr") return read_number(value, {.low = 0}, group.learning_rate);
  if (name == "weight_decay") return read_number(value, {.low = 0}, group.weight_decay);
  if (name == "frozen") return read_value(value, {}, group.frozen);
  const std::string near = nearest(name, kGroupKeys);
  return fmt::format("it is none of {}{}", fmt::join(kGroupKeys, ", "),
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

std::string read_group(const YamlNode& node, GroupSetting& group) {
  if (node.kind != YamlNode::Kind::kMapping)
    return fmt::format("expected a mapping with match, found {}", describe(node));
  std::vector<std::string> given;
  for (const auto& [key, value] : node.entries) {
    const std::string name = key.text == "lr" ? "learning_rate" : key.text;
    if (std::find(given.begin(), given.end(), name) != given.end())
      return fmt::format("'{}' is there twice", name);
    given.push_back(name);
    if (const std::string wrong = read_entry_of_group(name, value, group); !wrong.empty())
      return fmt::format("'{}': {}", key.text, wrong);
  }
  return group.match.empty() ? "match is missing: patterns of names, such as \"*.bias\"" : "";
}

std::string read_groups(Config& config, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kSequence)
    return fmt::format("expected a list of groups such as {{match: \"*.bias\", weight_decay: 0}}, found {}",
                       describe(node));
  std::vector<GroupSetting> groups;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    if (item.kind == YamlNode::Kind::kRefused) continue;
    if (const std::string wrong = read_group(item, groups.emplace_back()); !wrong.empty())
      return fmt::format("group {}: {}", i + 1, wrong);
    const Place whole = config.origins[kGroupsKey];
    config.origins[origin_of_entry(kGroupsKey, i)] =
        whole.line > 0 ? item.place : whole;  // of a word the word
  }
  config.optimizer.groups = std::move(groups);
  return "";
}

std::string print_group(const GroupSetting& group) {
  std::string text = fmt::format("{{match: {}", print_value(group.match, {}));
  if (group.learning_rate) text += fmt::format(", learning_rate: {}", print_value(*group.learning_rate, {}));
  if (group.weight_decay) text += fmt::format(", weight_decay: {}", print_value(*group.weight_decay, {}));
  if (group.frozen) text += ", frozen: true";
  return text + "}";
}

std::string print_groups(const Config& config) {
  std::vector<std::string> groups;
  for (const GroupSetting& group : config.optimizer.groups) groups.push_back(print_group(group));
  return fmt::format("[{}]", fmt::join(groups, ", "));
}

std::string contradiction_of(const GroupSetting& group) {
  const bool has_settings = group.learning_rate || group.weight_decay;
  if (group.frozen && has_settings) return "is frozen, and has a learning_rate or a weight_decay";
  if (!group.frozen && !has_settings)
    return "says nothing beside match: give learning_rate, weight_decay or frozen: true";
  if (group.learning_rate && *group.learning_rate == 0)
    return "has a learning_rate of 0: write frozen: true, which computes no gradients and keeps no states";
  return "";
}

}  // namespace

ConfigKey groups_key() {
  ConfigKey key;
  key.section = "optimizer";
  key.name = "groups";
  key.type = "groups";
  key.help =
      "parameters that are treated otherwise: a list of {match, learning_rate, weight_decay, frozen}; match: "
      "names in the model's files, with * for any characters; a parameter is in the first that matches";
  key.read = read_groups;
  key.print = print_groups;
  return key;
}

void check_groups(const Config& config, std::vector<Finding>& found) {
  const std::vector<GroupSetting>& groups = config.optimizer.groups;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (const std::string wrong = contradiction_of(groups[i]); !wrong.empty())
      found.push_back({{origin_of_entry(kGroupsKey, i), kGroupsKey},
                       fmt::format("{}: [{}] {}", kGroupsKey, fmt::join(groups[i].match, ", "), wrong)});
}

std::vector<ParameterGroup> parameter_groups(const Config& config) {
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < config.optimizer.groups.size(); ++i) {
    const GroupSetting& given = config.optimizer.groups[i];
    ParameterGroup group{.match = given.match, .weight_decay = given.weight_decay, .frozen = given.frozen};
    if (given.learning_rate && config.optimizer.learning_rate > 0)
      group.rate_scale = *given.learning_rate / config.optimizer.learning_rate;
    if (const auto place = config.origins.find(origin_of_entry(kGroupsKey, i)); place != config.origins.end())
      group.where = place->second.text;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace recollect
