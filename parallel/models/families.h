// The table of model families: a new one is a pair of files in this folder and a row in families.cpp.
#pragma once

#include <span>
#include <string_view>

#include "parallel/models/family.h"

namespace recollect {

// The first is what model.type is where nothing says otherwise.
std::span<const ModelFamily> model_families();
// Null where there is none of that type.
const ModelFamily* find_model_family(std::string_view type);
// Error kInternal where there is none.
const ModelFamily& model_family(std::string_view type);

}  // namespace recollect
