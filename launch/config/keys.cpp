#include "launch/config/keys.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/spelling.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/key_list.h"

namespace recollect {
namespace {

// "a.b" is the section b inside a.
std::string_view outer_of(std::string_view section) {
  const std::size_t dot = section.rfind('.');
  return section.substr(0, dot == std::string_view::npos ? 0 : dot);
}
std::string_view leaf_of(std::string_view section) { return section.substr(section.rfind('.') + 1); }

// Names that tell nothing without their section: who writes one elsewhere means something else.
bool is_vague(std::string_view section, std::string_view name) {
  constexpr std::array kAnywhere{"name", "steps", "weights"};
  constexpr std::array kInASection{"format", "path", "type", "alpha", "gamma", "rank", "dropout"};
  return std::find(kAnywhere.begin(), kAnywhere.end(), name) != kAnywhere.end() ||
         (!section.empty() && std::find(kInASection.begin(), kInASection.end(), name) != kInASection.end());
}

// Who writes so short a name in a section rather means something else than a key of another section that looks like it.
constexpr std::size_t kTooShortForElsewhere = 7;

}  // namespace

std::string_view KeyTable::section_help(std::string_view section) { return help_of_section(section); }

KeyTable::KeyTable(const ModelFamily& family)
    : family_(&family), keys_(list_keys(family)), sections_(list_sections(family)) {
  const auto order = [this](const ConfigKey& key) {
    return std::find(sections_.begin(), sections_.end(), key.section) - sections_.begin();
  };
  std::stable_sort(keys_.begin(), keys_.end(),
                   [&](const ConfigKey& a, const ConfigKey& b) { return order(a) < order(b); });
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    ConfigKey& key = keys_[i];
    const std::string path = key.path();
    for (const ForeignName& alias : foreign_names())
      if (alias.ours == path) key.aliases.emplace_back(alias.name);
    by_path_[path] = i;
    for (const std::string& alias : key.aliases)
      by_path_[key.section.empty() ? alias : fmt::format("{}.{}", key.section, alias)] = i;
  }
}

const KeyTable& KeyTable::of(const ModelFamily& family) {
  static const std::vector<KeyTable> tables = [] {
    std::vector<KeyTable> made;
    for (const ModelFamily& each : model_families()) made.emplace_back(each);
    return made;
  }();
  return *std::find_if(tables.begin(), tables.end(),
                       [&](const KeyTable& table) { return table.family_->type == family.type; });
}

Config KeyTable::defaults() const {
  Config config;
  config.model = Config::Model(*family_);
  config.task = family_->tasks.front();
  return config;
}

bool KeyTable::is_section(std::string_view outer, std::string_view name) const {
  return std::any_of(sections_.begin(), sections_.end(), [&](std::string_view section) {
    return outer_of(section) == outer && leaf_of(section) == name;
  });
}

const ConfigKey* KeyTable::find(const std::string& section, const std::string& name) const {
  const auto found = by_path_.find(section.empty() ? name : section + "." + name);
  // A dotted name of the top level is no key of the top level.
  if (found == by_path_.end() || keys_[found->second].section != section) return nullptr;
  return &keys_[found->second];
}

std::vector<const ConfigKey*> KeyTable::named(const std::string& name) const {
  std::vector<const ConfigKey*> found;
  if (const ConfigKey* key = find("", name)) found.push_back(key);
  for (const std::string_view section : sections_)
    if (const ConfigKey* key = find(std::string(section), name)) found.push_back(key);
  return found;
}

std::vector<const ConfigKey*> KeyTable::meant(const std::string& section, const std::string& name) const {
  std::vector<const ConfigKey*> found = named(name), inside;
  std::copy_if(found.begin(), found.end(), std::back_inserter(inside),
               [&](const ConfigKey* key) { return !section.empty() && outer_of(key->section) == section; });
  if (!inside.empty()) return inside;
  if (is_vague(section, name) || !same_word(section, name).empty()) found.clear();
  return found;
}

std::string KeyTable::explain_unknown(const GivenKey& given) const {
  const auto& [section, name, value, is_word] = given;
  const bool is_misplaced_section = !value && is_section("", name);
  if (std::string answer = is_misplaced_section ? "" : answer_foreign_key(given); !answer.empty())
    return answer;
  const auto ours = meant(section, name);
  if (const ForeignValue* row = ours.size() == 1 && value
                                    ? find_foreign_value(ours.front()->path(), ours.front()->name, *value)
                                    : nullptr;
      row && !row->writes.empty())
    return fmt::format("unknown key '{}'; write {}", name,
                       how_to_write(writes_of(*row, ours.front()->path(), *value), section, is_word));
  if (is_word && value && !ours.empty()) {
    std::vector<std::string> words;
    for (const ConfigKey* key : ours) words.push_back(fmt::format("{}={}", key->path(), *value));
    return fmt::format("unknown key '{}'; write {}", name, fmt::join(words, " or "));
  }
  const std::string shown = name.size() > 60 ? name.substr(0, 57) + "..." : name;
  const std::string suggestion = suggest(section, name);
  return fmt::format("unknown key '{}'{}{}", shown,
                     section.empty() ? "" : fmt::format(" in section '{}'", section),
                     suggestion.empty() ? "" : "; " + suggestion);
}

std::string_view KeyTable::same_word(const std::string& section, const std::string& name) const {
  std::vector<std::string_view> found;
  for (const ConfigKey& key : keys_)
    if (!section.empty() && key.section == section &&
        (key.name == name + "s" || key.name + "s" == name || key.name.ends_with("_" + name)))
      found.push_back(key.name);
  return found.size() == 1 ? found.front() : "";
}

std::string KeyTable::suggest(const std::string& section, const std::string& name) const {
  if (section.empty() && by_path_.contains(name)) return fmt::format("write '{}' inside the section", name);
  if (!section.empty() && is_section("", name))
    return fmt::format("'{}' is a section of the top level", name);
  if (!section.empty() && find("", name)) return fmt::format("'{}' belongs at the top level", name);
  std::vector<std::string> homes;
  for (const ConfigKey* key : meant(section, name)) homes.push_back(fmt::format("'{}'", key->section));
  for (const std::string_view home : sections_)
    if (is_section(home, name)) homes.push_back(fmt::format("'{}'", home));
  if (!homes.empty()) return fmt::format("'{}' belongs in section {}", name, fmt::join(homes, " or "));
  if (const std::string_view same = same_word(section, name); !same.empty())
    return fmt::format("did you mean '{}'?", same);
  if (is_vague(section, name)) return "";

  std::vector<std::string_view> here;
  std::vector<std::string_view> elsewhere;
  for (const auto& [path, index] : by_path_) {
    const std::string& home = keys_[index].section;
    const std::string_view last = std::string_view(path).substr(home.empty() ? 0 : home.size() + 1);
    (home == section ? here : elsewhere).push_back(last);
  }
  for (const std::string_view inner : sections_)
    if (outer_of(inner) == section) here.push_back(leaf_of(inner));
  if (const std::string near = nearest(name, here); !near.empty())
    return fmt::format("did you mean '{}'?", near);
  if (!section.empty() && name.size() <= kTooShortForElsewhere) return "";
  const std::string near = nearest(name, elsewhere);
  if (near.empty()) return "";
  if (find("", near)) return fmt::format("did you mean '{}' of the top level?", near);
  const auto home = std::find_if(sections_.begin(), sections_.end(),
                                 [&](std::string_view s) { return find(std::string(s), near) != nullptr; });
  return fmt::format("did you mean '{}' in section '{}'?", near, *home);
}

}  // namespace recollect
