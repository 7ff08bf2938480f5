// Reads JSON from untrusted files: no duplicate keys, limited depth, valid UTF-8, no bytes after the value.
// Accepted text means the same to every parser.
#pragma once

#include <string>
#include <string_view>

#include "engine/io/json.h"

namespace recollect {

// Parses one whole document into a tree. `source` names the file in errors. Throws kInput with the line and
// column and, for a duplicate key, the key.
nlohmann::json parse_strict_json(std::string_view text, const std::string& source, int max_depth = 32);

// Describes a text that the JSON parser refuses: "not valid JSON", or the specific reason if users would not
// see it.
std::string json_problem(const nlohmann::json::exception& error);

// Returns a name from a file as our messages print it: in quotes, with control characters escaped (a name
// cannot forge a log line) and invalid UTF-8 replaced, cut after 200 bytes.
std::string escaped_name(std::string_view name);

}  // namespace recollect
