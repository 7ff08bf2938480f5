// Every key of the configuration, in one table: it drives reading YAML and config.json, command-line
// overrides, the resolved dump and the comparison between ranks. A key that is not in the table does not
// exist. Each model family has a table of its own, since the section `model` holds the keys of one family.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/scalars.h"
#include "launch/config/config.h"
#include "launch/config/foreign_answers.h"

namespace recollect {

// The results of a run that a key can change. In this order: all of them; only the initial state; only steps
// that are not finite; only evaluations and the choice of the best model; only
// the number of steps; none.
enum class Decides { kResults, kBeginning, kNotFinite, kEvaluations, kLength, kNothing };
template <>
inline constexpr std::array<std::string_view, 6> kSpellings<Decides> = {
    "yes", "beginning", "not finite", "evaluations", "length", "no"};

struct ConfigKey {
  std::string section;  // "" for a key of the top level; "outer.inner" for a section in a section
  std::string name;     // "max_steps"
  std::vector<std::string> aliases;  // other names in the same section: the family's, and foreign_names()
  std::string type;                  // "integer", "number", "boolean", "text", "bytes", "texts", or "choice"
  std::vector<std::string> choices;  // of a choice, and of the entries of texts where not all will do
  std::vector<std::string> old_choices;  // further ones, which earlier versions wrote
  ValueRange range;
  std::string help;
  Decides decides = Decides::kResults;
  // Sets the key in a configuration and returns "", or returns why the node's value is refused.
  std::function<std::string(Config&, const YamlNode&)> read;
  std::function<std::string(const Config&)> print;  // as YAML

  std::string path() const { return section.empty() ? name : section + "." + name; }
};

class KeyTable {
 public:
  explicit KeyTable(const ModelFamily& family = model_families().front());
  // Made once: it takes as long as reading a file.
  static const KeyTable& of(const ModelFamily& family);

  const ModelFamily& family() const { return *family_; }
  // A configuration in which nothing is given.
  Config defaults() const;

  const std::vector<ConfigKey>& keys() const { return keys_; }
  std::span<const std::string_view> sections() const { return sections_; }
  // Whether `name` is a section inside `outer` ("": of the top level).
  bool is_section(std::string_view outer, std::string_view name) const;
  // One sentence on what a section is for.
  static std::string_view section_help(std::string_view section);
  // The key of that name or alias in a section, or null.
  const ConfigKey* find(const std::string& section, const std::string& name) const;
  // Every key that has that name or alias, whatever its section.
  std::vector<const ConfigKey*> named(const std::string& name) const;
  // What to write instead of a key of another trainer's; else "unknown key ...", with the section where it
  // belongs or the key that was probably meant.
  std::string explain_unknown(const GivenKey& given) const;

 private:
  // The key of the section that is the name but for an "s", or for a word before it: every_steps for steps.
  std::string_view same_word(const std::string& section, const std::string& name) const;
  // Keys of that name which stand elsewhere: those of a section inside this one alone, where there are any; none where the
  // name tells too little, or the section has a key that is more like it.
  std::vector<const ConfigKey*> meant(const std::string& section, const std::string& name) const;
  std::string suggest(const std::string& section, const std::string& name) const;

  const ModelFamily* family_;
  std::vector<ConfigKey> keys_;
  std::vector<std::string_view> sections_;                   // views of string literals
  std::map<std::string, std::size_t, std::less<>> by_path_;  // aliases too
};

}  // namespace recollect
