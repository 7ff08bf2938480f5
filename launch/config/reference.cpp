// The table of keys as a page.
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/config/foreign_keys.h"
#include "launch/config/schema.h"

namespace recollect {

namespace {

constexpr const char* kOpening =
    "# Configuration\n"
    "\n"
    "Every key of a configuration file, in the order in which `config.resolved.yaml` states them. This page "
    "is the\n"
    "output of `recollect config reference`; `recollect config show CONFIG.yaml` prints the values of one "
    "run, and\n"
    "where each comes from.\n"
    "\n"
    "- A file is one YAML mapping of sections. On the command line a key is `section.key=value`, and wins "
    "over the\n"
    "  file; of several words for one key the last wins.\n"
    "- Numbers are decimal; bytes are written `4GiB`, `512MiB` or as an integer; a list of one may be "
    "written as\n"
    "  its entry.\n"
    "- Unknown keys, wrong types, values out of range and settings without effect end the run with exit code "
    "2.\n"
    "- *Results* says what a key can change: `yes`, losses, gradients and weights; `beginning`, the state "
    "that a run\n"
    "  begins with, which a resumed run has from its snapshot; `not finite`, what follows a step whose loss "
    "or gradients\n"
    "  are not finite; `evaluations`, only these, and with them which model is the best; `length`, only how "
    "many steps\n"
    "  there are; `no`, nothing of these, not a bit. A resumed run warns of a changed key with `yes`.\n"
    "- `recollect config schema > recollect.schema.json` makes the JSON Schema for editors. In the first "
    "line of a\n"
    "  configuration, `# yaml-language-server: $schema=recollect.schema.json` tells them where it is.\n";

constexpr const char* kOthers =
    "\n## Keys of others\n"
    "\n"
    "Names of other trainers that mean exactly one of our keys stand beside it above, and are read in its "
    "section.\n"
    "These are none of ours: whoever writes one, wherever it stands, is told what to write. With them\n"
    "`recollect config import FILE` makes a configuration of DeepSpeed's or OSLO's JSON, Transformers' "
    "TrainingArguments\n"
    "as JSON, accelerate's or axolotl's YAML, or torchtitan's TOML. It takes only what that trainer would "
    "use (an "
    "optimizer's\n"
    "own arguments, the steps that a strategy reads), and lists what has no equivalent.\n"
    "\n"
    "| key | of | here |\n|---|---|---|\n";
constexpr const char* kValuesOfOthers =
    "\n## Values of others\n\n"
    "Of our keys and of theirs, in any letter case.\n\n"
    "| key | value | here |\n|---|---|---|\n";

// Inside a cell, and outside code.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string values(const ConfigKey& key) {
  std::string words = fmt::format("`{}`", fmt::join(key.choices, "` `"));
  if (key.type == "choice") return words;
  if (key.type == "groups") return "list of groups";
  if (key.type == "patterns") return "numbers by name";
  if (key.type == "texts") return key.choices.empty() ? "list of texts" : "list of " + words;
  const std::string range = key.type == "bytes" ? "" : key.range.describe();
  return range.empty() ? key.type : fmt::format("{}, {}", key.type, range);
}

std::string row(const ConfigKey& key, const Config& defaults) {
  std::string names = fmt::format("`{}`", key.name);
  for (const std::string& alias : key.aliases) names += fmt::format(", `{}`", alias);
  return fmt::format("| {} | {} | `{}` | {} | {} |\n", names, values(key), key.print(defaults),
                     name_of(key.decides), cell(key.help));
}

std::string section_text(const KeyTable& table, std::string_view section, std::string_view title) {
  const Config defaults = table.defaults();
  std::string text = fmt::format("\n## {}\n\n", title);
  if (const std::string_view help = table.section_help(section); !help.empty())
    text += fmt::format("{}\n\n", help);
  text += "| key | value | default | results | meaning |\n|---|---|---|---|---|\n";
  for (const ConfigKey& key : table.keys())
    if (key.section == section) text += row(key, defaults);
  return text;
}

// The sections inside `model` of all families, each once, with the types that have it.
std::string inner_sections_of_models() {
  std::map<std::string_view, std::vector<std::string_view>> types;
  for (const ModelFamily& family : model_families())
    for (const ModelSection& section : family.sections) types[section.path].push_back(family.type);
  std::string text;
  for (const auto& [section, of] : types)
    text += section_text(KeyTable::of(model_family(of.front())), section,
                         fmt::format("{}, type: {}", section, fmt::join(of, ", ")));
  return text;
}

// What others call things, where it is no alias of ours.
std::string keys_of_others() {
  std::string text = kOthers;
  for (const ForeignKey& key : foreign_keys()) {
    std::string here = key.ours.empty() ? "" : fmt::format("`{}`", key.ours);
    std::string advice = cell(std::string(key.advice));
    for (std::size_t at = advice.find("{}"); at != std::string::npos; at = advice.find("{}"))
      advice.replace(at, 2, "N");
    if (!here.empty() && !advice.empty()) here += ": ";
    text += fmt::format("| `{}` | {} | {} |\n", key.name, key.of, here + advice);
  }
  text += kValuesOfOthers;
  for (const ForeignValue& value : foreign_values()) {
    std::string here = value.writes.empty() ? "" : fmt::format("`{}`", value.writes);
    if (!here.empty() && !value.advice.empty()) here += "; ";
    text +=
        fmt::format("| `{}` | `{}` | {} |\n", value.key, value.value, here + cell(std::string(value.advice)));
  }
  return text;
}

}  // namespace

std::string config_reference(const KeyTable& table) {
  std::string text = kOpening;
  for (const std::string_view section : table.sections()) {
    text += section_text(table, section, section);
    if (section != "model") continue;
    for (const ModelFamily& other : model_families())
      if (other.type != table.family().type)
        text += section_text(KeyTable::of(other), section, fmt::format("model, type: {}", other.type));
    text += inner_sections_of_models();
  }
  text += section_text(table, "", "At the top level");
  return text + keys_of_others();
}

}  // namespace recollect
