#include "launch/config/foreign_answers.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr std::size_t kMostShown = 60;

std::string cut_short(const std::string& text) {
  return text.size() > kMostShown ? text.substr(0, kMostShown - 3) + "..." : text;
}

// Of "section.key" the two.
std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// What follows keys that stand in `home` for one who writes in `section`.
std::string whereabouts(std::string_view home, std::string_view section) {
  if (home == section) return "";
  return home.empty() ? " at the top level" : fmt::format(" in section '{}'", home);
}

std::string behind(const std::string& advice) { return advice.empty() ? "" : "; " + advice; }

}  // namespace

std::optional<std::string> text_of(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return node.text;
  if (node.kind != YamlNode::Kind::kSequence) return std::nullopt;
  std::vector<std::string> entries;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::kScalar) return std::nullopt;
    entries.push_back(item.text);
  }
  return fmt::format("[{}]", fmt::join(entries, ", "));
}

std::string how_to_write(std::span<const std::pair<std::string, std::string>> writes,
                         std::string_view section, bool is_word) {
  std::string text;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const auto& [path, value] = writes[i];
    if (is_word) {
      const std::string word = fmt::format("{}={}", path, cut_short(value));
      text += (i == 0 ? "" : " ") +
              (word.find_first_of(" [") == std::string::npos ? word : fmt::format("'{}'", word));
      continue;
    }
    const auto [home, name] = split_path(path);
    const bool is_last = i + 1 == writes.size() || split_path(writes[i + 1].first).first != home;
    text += fmt::format("{}{}: {}{}", i == 0 ? "" : " and ", name, cut_short(value),
                        is_last ? whereabouts(home, section) : "");
  }
  return text;
}

std::string answer_foreign_key(const GivenKey& given) {
  const std::string path = given.section.empty() ? given.name : given.section + "." + given.name;
  const std::optional<Translation> found = translate_foreign(path, given.value);
  if (!found) return "";
  const std::string name = given.name.ends_with(fmt::format(".{}", found->name)) ? std::string(found->name)
                                                                                 : cut_short(given.name);
  const std::string of(found->of.substr(0, found->of.find(',')));
  if (!found->writes.empty())
    return fmt::format("'{}' of {} is {} here; write {}{}", name, of, found->writes.front().first,
                       how_to_write(found->writes, given.section, given.is_word), behind(found->advice));
  const bool refused = found->advice.starts_with("not supported") && given.value && !found->ours.empty() &&
                       find_foreign_value(found->ours, found->name, *given.value);
  if (refused)
    return fmt::format("'{}' of {} is {} here, and '{}' is {}", name, of, found->ours,
                       cut_short(*given.value), found->advice);
  if (!found->advice.empty()) return fmt::format("'{}' is a key of {}; {}", name, of, found->advice);
  const auto [home, ours] = split_path(found->ours);
  return fmt::format("'{}' of {} is {} here; write {}{}", name, of, found->ours, ours,
                     whereabouts(home, given.section));
}

std::string answer_foreign_value(std::string_view path, std::string_view name, const YamlNode& value,
                                 bool is_word) {
  for (const YamlNode& item : value.items)
    if (std::string answer = answer_foreign_value(path, name, item, is_word); !answer.empty()) return answer;
  if (value.kind != YamlNode::Kind::kScalar) return "";
  const ForeignValue* row = find_foreign_value(path, name, value.text);
  if (!row) return "";
  const std::string advice(row->advice);
  const auto writes = writes_of(*row, path, value.text);
  if (!writes.empty())
    return fmt::format("for '{}' write {}{}", cut_short(value.text),
                       how_to_write(writes, split_path(path).first, is_word), behind(advice));
  return fmt::format("'{}'{} {}", value.text, advice.starts_with("not supported") ? " is" : ":", advice);
}

}  // namespace recollect
