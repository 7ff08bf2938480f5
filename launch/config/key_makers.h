// Makes keys of members of a Config: the type of each, how YAML is read into it, how it is printed.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/io/spelling.h"
#include "launch/config/keys.h"

namespace recollect {

template <typename T>
std::string type_name(const ValueRange& range) {
  if constexpr (std::same_as<T, bool>) return "boolean";
  if constexpr (std::same_as<T, int64_t>) return range.byte_size ? "bytes" : "integer";
  if constexpr (std::same_as<T, double>) return "number";
  if constexpr (std::same_as<T, std::string>) return "text";
  if constexpr (std::same_as<T, std::vector<std::string>>) return "texts";
  return "choice";
}

// The key of the value that `member` reaches in a Config; `member` works on const and mutable ones.
template <typename Member>
ConfigKey make_key(std::string section, std::string name, const Member& member, const ValueRange& range,
                   std::string help) {
  using T = std::remove_cvref_t<decltype(member(std::declval<Config&>()))>;
  ConfigKey key;
  key.section = std::move(section);
  key.name = std::move(name);
  key.type = type_name<T>(range);
  key.range = range;
  key.choices.assign(range.words.begin(), range.words.end());
  key.help = std::move(help);
  if constexpr (Spelled<T>) {
    key.choices.assign(kSpellings<T>.begin(), kSpellings<T>.end());
    for (const auto& [word, value] : kOldSpellings<T>) key.old_choices.emplace_back(word);
    key.read = [member](Config& config, const YamlNode& node) {
      for (const auto& [word, value] : kOldSpellings<T>)
        if (node.kind == YamlNode::Kind::kScalar && node.text == word) {
          member(config) = value;
          return std::string();
        }
      std::size_t index = 0;
      std::string wrong = read_choice(node, kSpellings<T>, index);
      if (wrong.empty()) {
        member(config) = static_cast<T>(index);
        return wrong;
      }
      for (const auto& [word, value] : kOldSpellings<T>)  // the new name of what was meant
        if (!nearest(node.text, std::array{word}).empty() && nearest(node.text, kSpellings<T>).empty())
          wrong += fmt::format("; did you mean '{}'?", name_of(value));
      return wrong;
    };
    key.print = [member](const Config& config) { return print_text(name_of(member(config))); };
  } else {
    key.read = [member, range](Config& config, const YamlNode& node) {
      return read_value(node, range, member(config));
    };
    key.print = [member, range](const Config& config) { return print_value(member(config), range); };
  }
  return key;
}

// A text that is one of those words.
template <typename Member>
ConfigKey make_choice(std::string section, std::string name, const Member& member,
                      const std::vector<std::string_view>& words, std::string help) {
  ConfigKey key = make_key(std::move(section), std::move(name), member, {}, std::move(help));
  key.type = "choice";
  key.choices.assign(words.begin(), words.end());
  key.read = [member, words](Config& config, const YamlNode& node) {
    std::size_t index = 0;
    std::string wrong = read_choice(node, words, index);
    if (wrong.empty()) member(config) = words[index];
    return wrong;
  };
  return key;
}

// Adds keys of one section.
template <typename S>
class Adder {
 public:
  // `decides`: of those keys that do not say it themselves.
  Adder(std::vector<ConfigKey>& keys, std::string section, S Config::*part,
        Decides decides = Decides::kResults)
      : keys_(keys), section_(std::move(section)), part_(part), decides_(decides) {}

  template <typename T>
  void operator()(const char* name, T S::*member, const ValueRange& range, const std::string& help) const {
    (*this)(name, member, range, decides_, help);
  }
  template <typename T>
  void operator()(const char* name, T S::*member, const ValueRange& range, Decides decides,
                  const std::string& help) const {
    const auto reach = [ part = part_, member ](auto& config) -> auto& { return config.*part.*member; };
    keys_.push_back(make_key(section_, name, reach, range, help));
    keys_.back().decides = decides;
  }

 private:
  std::vector<ConfigKey>& keys_;
  std::string section_;
  S Config::*part_;
  Decides decides_;
};

inline constexpr Decides kResults = Decides::kResults, kBeginning = Decides::kBeginning,
                         kNotFinite = Decides::kNotFinite, kEvaluations = Decides::kEvaluations,
                         kLength = Decides::kLength, kNothing = Decides::kNothing;

inline ValueRange any() { return {}; }
inline ValueRange not_empty() { return {.required = true}; }
inline ValueRange between(double low, double high) { return {.low = low, .high = high}; }
inline ValueRange at_least(double low) { return {.low = low}; }
inline ValueRange above(double low) { return {.low = low, .low_open = true}; }
inline ValueRange fraction() { return {.low = 0, .high = 1, .high_open = true}; }
inline ValueRange among(std::span<const std::string_view> words) { return {.words = words}; }
inline ValueRange byte_size() { return {.low = 0, .byte_size = true}; }

// Upper bounds that no real run meets; they keep products of sizes inside 64 bits, as those of families do.
inline constexpr double kMaxBatch = 1 << 20;
inline constexpr double kMaxCount = 2147483647;

template <typename Table>
std::vector<std::string_view> names_in(const Table& table, std::string_view Table::value_type::*name) {
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(row.*name);
  return names;
}

}  // namespace recollect
