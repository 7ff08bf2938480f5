// The label of a token that no loss counts, as torch's cross_entropy has it.
#pragma once

#include <cstdint>

namespace recollect {

inline constexpr int32_t kIgnoredLabel = -100;

}  // namespace recollect
