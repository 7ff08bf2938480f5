// The table of keys for those who do not run the program: as a JSON Schema, with which an editor completes
// and checks a configuration while it is written, and as a page to read.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "launch/config/keys.h"

namespace recollect {

// Draft 7, which YAML editors take. It accepts what read_config accepts of each key by itself, but that a
// text that looks like a number must stand in quotes, and refuses what read_config refuses of names, types,
// ranges and choices.
nlohmann::ordered_json config_schema(const KeyTable& table);

// Markdown: a table of keys for each section.
std::string config_reference(const KeyTable& table);

}  // namespace recollect
