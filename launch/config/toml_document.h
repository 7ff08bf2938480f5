// TOML as the tree that YAML is read into, so that whoever reads keys need not know which of the two it was.
#pragma once

#include <string>
#include <string_view>

#include "engine/io/yaml_document.h"

namespace recollect {

// Whether a document is TOML: by the end of its name, or because it begins with the head of a table.
bool is_toml(std::string_view name, std::string_view text);
// As parse_document.
YamlNode parse_toml(const std::string& name, std::string_view text, Problems& problems);

}  // namespace recollect
