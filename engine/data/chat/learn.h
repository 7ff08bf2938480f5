// Which tokens of a record are learned; the others are read and predict nothing.
#pragma once

#include <array>
#include <string_view>

#include "engine/core/spelled.h"

namespace recollect {

// auto: the assistant's tokens of a conversation, and the completion of a prompt with one.
enum class Learn { kAuto, kAssistant, kCompletion, kAll };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<Learn> = {"auto", "assistant", "completion",
                                                                      "all"};

}  // namespace recollect
