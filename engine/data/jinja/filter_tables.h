// The tables that names of filters and tests are looked up in.
#pragma once

#include <span>
#include <string_view>

#include "engine/data/jinja/builtins.h"

namespace recollect::jinja {

struct NamedBuiltin {
  std::string_view name;
  Builtin function;
};
std::span<const NamedBuiltin> filters_of_values();
std::span<const NamedBuiltin> filters_of_lists();

}  // namespace recollect::jinja
