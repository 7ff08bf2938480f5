// The target of what no loss counts.
#pragma once

#include <cstdint>
#include <limits>

namespace recollect {

// As torch's cross_entropy has it.
inline constexpr int32_t kIgnoredLabel = -100;

// Where targets are numbers: not a number, which no file can say.
inline constexpr float kIgnoredNumber = std::numeric_limits<float>::quiet_NaN();

}  // namespace recollect
