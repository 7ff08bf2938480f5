// The implementations of a run's collectives that a configuration can choose.
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

enum class CommunicatorKind { kAuto, kSelf, kLocal, kMpi, kTcp };
template <>
inline constexpr std::array<std::string_view, 5> kSpellings<CommunicatorKind> = {"auto", "self", "local",
                                                                                 "mpi", "tcp"};

}  // namespace recollect
