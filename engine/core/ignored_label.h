// The target values that every loss ignores.
#pragma once

#include <cstdint>
#include <limits>

namespace recollect {

// The same number as in torch's cross_entropy.
inline constexpr int32_t kIgnoredLabel = -100;

// For targets that are real numbers: NaN, which no data file can contain.
inline constexpr float kIgnoredNumber = std::numeric_limits<float>::quiet_NaN();

}  // namespace recollect
