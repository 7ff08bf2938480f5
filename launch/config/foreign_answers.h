// What is said to whoever writes a key or a value that is another trainer's: the path of our key, and the line
// to write where the value can be translated. All that is known of them stands in foreign_keys.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/io/yaml_document.h"

namespace recollect {

// A key as somebody gave it.
struct GivenKey {
  std::string section;                    // "" at the top level
  std::string name;                       // may be "section.key" of theirs
  std::optional<std::string> value = {};  // as YAML; nothing where it is a mapping
  bool is_word = false;                   // of the command line
};

// "" where it is none of theirs.
std::string answer_foreign_key(const GivenKey& given);

// The same for a value of our key `path`, which was given by `name`.
std::string answer_foreign_value(std::string_view path, std::string_view name, const YamlNode& value,
                                 bool is_word);

// "precision: bf16 in section 'training'" for one who writes in `section`, or "training.precision=bf16".
std::string how_to_write(std::span<const std::pair<std::string, std::string>> writes,
                         std::string_view section, bool is_word);

// A scalar, or a list of scalars, in one line.
std::optional<std::string> text_of(const YamlNode& node);

}  // namespace recollect
