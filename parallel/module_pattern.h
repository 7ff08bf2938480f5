// Names of modules as PEFT matches them: by the end of a name, by a regular expression of the whole name, and by a regular
// expression of its end. Names are whole, as files have them, with their prefix.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace recollect {

// Whether a text is a regular expression: it has characters that no module's name has.
bool is_pattern(std::string_view text);

// A regular expression of Python's, as far as C++ reads the same. It takes no longer than its length times that of a name.
class ModulePattern {
 public:
  // Error kConfiguration, which begins with `key`, for one that is none, or that is not read here.
  ModulePattern(const std::string& key, const std::string& pattern);

  bool matches_whole(std::string_view name) const;  // re.fullmatch
  bool matches_end(std::string_view name) const;    // from a dot on, or from the beginning
  // The number of the layer in a name: what stands behind the first part that the pattern matches.
  std::optional<long> layer_of(std::string_view name) const;

 private:
  std::regex whole_, end_, layer_;
};

}  // namespace recollect
