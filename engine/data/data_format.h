// What the files of a dataset hold.
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

enum class DataFormat { kRandom, kJsonl, kTokens, kText };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<DataFormat> = {"random", "jsonl", "tokens",
                                                                           "text"};

enum class TokenDtype { kAuto, kU16, kU32 };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<TokenDtype> = {"auto", "uint16", "uint32"};

}  // namespace recollect
