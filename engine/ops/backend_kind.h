// The implementations of the ops that a run can compute with.
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

enum class BackendKind { kCpu, kReference, kCuda };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<BackendKind> = {"cpu", "reference", "cuda"};

}  // namespace recollect
