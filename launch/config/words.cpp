#include "launch/config/words.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options.hpp>

#include "engine/io/spelling.h"
#include "engine/io/standard_output.h"
#include "launch/config/keys.h"
#include "launch/config/option_problem.h"
#include "launch/config/read.h"

namespace recollect {

namespace {

bool names_configuration(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

// What an option is given: behind its '=', or by the next word.
std::optional<std::string> value_of(const std::string& option, const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
    const bool has_next = words[i] == option && i + 1 < words.size();
    const std::string next = has_next ? words[i + 1] : "-";
    if (!next.starts_with("--") && next != "-" && next.find('=') == std::string::npos &&
        !names_configuration(next))
      return next;
  }
  return std::nullopt;
}

// What to write for an option that is called as a key; "" where it is not.
std::string explain_key_option(std::string name, const std::optional<std::string>& value) {
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "steps") name = "max_steps";  // a run has so many, before it tells every so manieth of them
  const KeyTable& table = KeyTable::of(model_families().front());
  std::vector<std::string> ways;
  const std::size_t dot = name.rfind('.');
  std::vector<const ConfigKey*> keys = table.named(name);
  if (dot != std::string::npos) keys = {table.find(name.substr(0, dot), name.substr(dot + 1))};
  for (const ConfigKey* key : keys)
    if (key)
      ways.push_back(
          fmt::format("{}={}", key->path(), value.value_or(key->type == "boolean" ? "true" : "...")));
  if (!ways.empty()) return fmt::format("keys stand without dashes: write {}", fmt::join(ways, " or "));
  return answer_foreign_key({"", name, value ? value : "true", true});
}

std::string explain_option(const std::string& given, const Words& words, const OptionTable& own) {
  const std::string option = given.substr(0, given.find('='));
  const std::size_t first = option.find_first_not_of('-');
  const bool takes_keys = std::any_of(words.begin(), words.end(), names_configuration);
  if (first == std::string::npos) return "";
  std::string hint = takes_keys ? explain_key_option(option.substr(first), value_of(option, words)) : "";
  if (!hint.empty()) return hint;
  std::vector<std::string> known;
  for (const auto& each : own.options()) known.push_back("--" + each->long_name());
  const std::string near = nearest(option, std::vector<std::string_view>(known.begin(), known.end()));
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

}  // namespace

OptionTable key_options() {
  namespace options = boost::program_options;
  OptionTable table;
  table.add_options()("set", options::value<Words>()->composing()->value_name("section.key=value"),
                      "the same as that word alone");
  return table;
}

Words parse_options(const Words& words, const OptionTable& own) {
  namespace options = boost::program_options;
  try {
    options::variables_map values;
    const options::parsed_options parsed = options::command_line_parser(words).options(own).run();
    options::store(parsed, values);
    options::notify(values);
    Words rest = options::collect_unrecognized(parsed.options, options::include_positional);
    if (own.find_nothrow("set", false) && values.count("set") > 0) {
      const auto& sets = values["set"].as<Words>();
      rest.insert(rest.end(), sets.begin(), sets.end());
    }
    return rest;
  } catch (const options::unknown_option& error) {
    const std::string hint = explain_option(error.get_option_name(), words, own);
    throw UsageError(option_problem(error, words) + (hint.empty() ? "" : "; " + hint));
  } catch (const options::error& error) {
    throw UsageError(option_problem(error, words));
  }
}

Words parse_options(const Words& words) { return parse_options(words, OptionTable()); }

Config read_config_words(const std::string& command, const Words& words, const BuildFeatures& features) {
  if (words.empty()) throw UsageError(fmt::format("{} needs a configuration file", command));
  Config config = read_config(words.front(), {words.begin() + 1, words.end()}, features);
  if (command != "train")  // of whose ranks one tells
    for (const std::string& sentence : config.given_way) warn("{}", sentence);
  return config;
}

}  // namespace recollect
