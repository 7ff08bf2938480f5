// JSON as Python's json module writes it (the filter tojson), and values that are read from JSON: keys keep their order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/data/jinja/value.h"

namespace recollect::jinja {

struct JsonStyle {
  bool only_ascii = false, sort_keys = false;
  std::optional<std::string> indent = {};                   // of a level; nothing: all in one line
  std::optional<std::string> between = {}, after_key = {};  // nothing: as Python has it
};

// Fault for what json.dumps refuses.
std::string to_json(const Value& value, const JsonStyle& style);

// One whole document. Numbers beyond 64 bits, and what is no JSON, are errors kInput that begin with what is wrong, without
// a place. Of a key that appears twice the last one counts.
Value from_json(std::string_view text);

}  // namespace recollect::jinja
