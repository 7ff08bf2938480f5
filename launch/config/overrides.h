// Command-line overrides: "section.key=value".
#pragma once

#include <string>
#include <vector>

#include "engine/io/problems.h"
#include "engine/io/yaml_document.h"
#include "launch/config/keys.h"

namespace recollect {

struct Override {
  std::string word;   // as the user wrote it, without --set
  std::string key;    // left of the first '='
  std::string value;  // right of it
  Place place;        // "command line: key=value"
};

// The overrides among `words`; each may be preceded by a "--set" or start with "--set=".
std::vector<Override> split_overrides(const std::vector<std::string>& words, Problems& problems);

// The key an override names, or null after a problem.
const ConfigKey* find_override(const Override& entry, const KeyTable& table, Problems& problems);

// Its value: a list where the key takes one and the text starts with '[', the text as it is otherwise.
YamlNode override_node(const Override& entry, const ConfigKey& key, Problems& problems);

}  // namespace recollect
