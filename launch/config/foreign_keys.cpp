#include "launch/config/foreign_keys.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace recollect {

namespace {

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// The row of exactly that name; an alias as a key whose value is taken as it is.
std::optional<ForeignKey> row_of(std::string_view name) {
  for (const ForeignKey& key : foreign_keys())
    if (key.name == name) return key;
  for (const ForeignName& alias : foreign_names())
    if (alias.name == name) return ForeignKey{alias.name, alias.of, alias.ours, ""};
  return std::nullopt;
}

// The row that says of all keys in a mapping of theirs what is said of it.
std::optional<ForeignKey> row_around(std::string_view path) {
  for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos; dot = path.rfind('.')) {
    path = path.substr(0, dot);
    if (const auto row = row_of(path); row && !row->advice.empty()) return row;
  }
  return std::nullopt;
}

// As values stand in the table: in lower case, and "cuda:3" as "cuda:0".
std::string plain_value(std::string_view value) {
  std::string plain;
  for (const char c : value) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t colon = plain.rfind(':');
  if (colon != std::string::npos && colon + 1 < plain.size() &&
      plain.find_first_not_of("0123456789", colon + 1) == std::string::npos)
    plain = plain.substr(0, colon) + ":0";
  return plain;
}

bool is_part(std::string_view plain) {
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  return error == std::errc() && end == plain.data() + plain.size() && value > 0 && value < 1;
}

const ForeignValue* value_row(std::string_view key, std::string_view plain) {
  const auto rows = foreign_values();
  const auto find = [&](std::string_view value) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const ForeignValue& v) { return v.key == key && v.value == value; });
  };
  auto found = find(plain);
  if (found == rows.end() && is_part(plain)) found = find(kAnyPart);
  return found == rows.end() ? nullptr : &*found;
}

std::string with_value(std::string_view advice, const std::string& value) {
  std::string text(advice);
  for (std::size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at + value.size()))
    text.replace(at, 2, value);
  return text;
}

// The entries of "[a, b]".
std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  std::istringstream inside(std::string(list.substr(1, list.size() - 2)));
  for (std::string entry; std::getline(inside, entry, ',');) {
    entry.erase(0, entry.find_first_not_of(' '));
    entries.push_back(entry);
  }
  return entries;
}

void translate_list(const ForeignKey& key, const std::string& value, Translation& to) {
  std::vector<std::string> ours;
  bool is_list = false;
  for (const std::string& entry : entries_of(value)) {
    const ForeignValue* row = find_foreign_value(key.ours, key.name, entry);
    if (!row) ours.push_back(entry);
    if (row && !row->writes.empty() && row->writes.front() != '[') ours.emplace_back(row->writes);
    if (row && row->writes.starts_with('[')) {  // a list in place of an entry
      const std::vector<std::string> several = entries_of(row->writes);
      is_list = true;
      ours.insert(ours.end(), several.begin(), several.end());
    }
    if (row && row->writes.empty())
      to.advice += fmt::format("{}{}: {}", to.advice.empty() ? "" : "; ", entry, row->advice);
  }
  if (!ours.empty() || is_list)
    to.writes = {{std::string(key.ours), fmt::format("[{}]", fmt::join(ours, ", "))}};
}

void translate_value(const ForeignKey& key, const std::string& value, Translation& to) {
  const ForeignValue* row = value_row(key.name, plain_value(value));
  if (!row && key.advice.empty()) row = value_row(key.ours, plain_value(value));
  if (row) {
    to.writes = writes_of(*row, key.ours, value);
    to.advice = row->advice;
  } else if (!key.advice.empty()) {
    to.advice = with_value(key.advice, value);
  } else if (value.starts_with('[') && value.ends_with(']')) {
    translate_list(key, value, to);
  } else {
    to.writes = {{std::string(key.ours), key.convert ? key.convert(value) : value}};
  }
}

}  // namespace

const ForeignValue* find_foreign_value(std::string_view path, std::string_view name,
                                       const std::string& value) {
  const std::string plain = plain_value(value);
  const ForeignValue* row = name == last_of(path) && name != path ? nullptr : value_row(name, plain);
  return row ? row : value_row(path, plain);
}

std::vector<std::pair<std::string, std::string>> writes_of(const ForeignValue& row, std::string_view path,
                                                           const std::string& given) {
  if (row.writes.empty()) return {};
  if (row.writes.find('=') == std::string_view::npos) return {{std::string(path), std::string(row.writes)}};
  std::vector<std::pair<std::string, std::string>> writes;
  std::istringstream all{with_value(row.writes, given)};
  for (std::string one; std::getline(all, one, ';');) {
    const std::size_t equals = one.find('=');
    writes.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return writes;
}

bool is_foreign_section(std::string_view path) {
  const std::string start = fmt::format("{}.", path);
  return std::any_of(foreign_keys().begin(), foreign_keys().end(),
                     [&](const ForeignKey& key) { return key.name.starts_with(start); });
}

std::optional<Translation> translate_foreign(std::string_view path, const std::optional<std::string>& value) {
  std::string written(path);  // with underscores, as command lines do not always have them
  std::replace(written.begin(), written.end(), '-', '_');
  std::optional<ForeignKey> key = row_of(written), around = key ? std::nullopt : row_around(written);
  const bool within =
      around && around->name.find('.') != std::string_view::npos;  // more is known than the last name
  if (!key && !within) key = row_of(last_of(written));
  const bool of_a_section = !key;
  if (!key) key = around;
  if (!key) return std::nullopt;
  Translation to{key->name, key->of, key->ours, {}, ""};
  if (value && !of_a_section)
    translate_value(*key, *value, to);
  else
    to.advice = with_value(key->advice, "N");
  return to;
}

}  // namespace recollect
