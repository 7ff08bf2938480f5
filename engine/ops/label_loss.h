// The error message for a target that is not a class, the same in every backend.
#pragma once

#include <string>

#include "engine/core/error.h"

namespace recollect {

// `at` is the target's index in row-major order, with `columns` targets per row.
inline Error no_such_class(int64_t target, int64_t at, int64_t classes, int64_t columns) {
  return Error(ExitCode::kInput,
               "target " + std::to_string(target) + " of row " + std::to_string(at / columns) +
                   (columns > 1 ? ", column " + std::to_string(at % columns) : "") + " is none of the " +
                   std::to_string(classes) + " classes",
               "classes are numbered from 0; -100 is a target that does not count");
}

}  // namespace recollect
