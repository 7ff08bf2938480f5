// From a template's source to its tree, by Jinja's grammar. What a template has that is not supported is an error here,
// with its line, and not when a record meets it.
#pragma once

#include <string>
#include <string_view>

#include "engine/data/jinja/syntax.h"

namespace recollect::jinja {

// Error kInput with `name` and the line.
Nodes parse_template(std::string_view source, const std::string& name);

}  // namespace recollect::jinja
