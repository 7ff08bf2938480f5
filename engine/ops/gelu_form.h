// The forms of GELU, for every backend.
#pragma once

#include "engine/graph/attributes.h"

namespace recollect {

// The erf form; else, and where none is named, the one with tanh.
inline bool is_erf_form(const Attributes& attributes) {
  return attributes.has("form") && attributes.text("form") == "erf";
}

}  // namespace recollect
