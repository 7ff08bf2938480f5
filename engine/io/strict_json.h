// JSON from people we do not know: no duplicate keys, bounded depth, valid UTF-8, no bytes after the value.
// What is accepted means the same to every parser.
#pragma once

#include <string>
#include <string_view>

#include "engine/io/json.h"

namespace recollect {

// Parses one whole document into a tree. `source` names the file in errors.
// Errors: kInput with the line and column and, for a duplicate key, the key.
nlohmann::json parse_strict_json(std::string_view text, const std::string& source, int max_depth = 32);

// What is wrong with a text that a parser of JSON refuses: "not valid JSON", or the reason where its users would not see it.
std::string json_problem(const nlohmann::json::exception& error);

// A name from a file as it appears in our messages: in quotes, control characters escaped (a name cannot
// forge a log line), invalid UTF-8 replaced, cut after 200 bytes.
std::string escaped_name(std::string_view name);

}  // namespace recollect
