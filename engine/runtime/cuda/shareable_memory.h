// Memory of the device that other processes' devices may map: what NCCL's symmetric windows ask for, and
// cudaMalloc does not give.
#pragma once

#include <optional>

#include "engine/core/arena.h"

namespace recollect::cuda {

// Not zeroed. Nothing where this device, or what is free of it, does not allow it.
std::optional<Arena> reserve_shareable(int ordinal, std::size_t bytes);

}  // namespace recollect::cuda
