// Device memory that the devices of other processes may map. NCCL's symmetric windows need it, and cudaMalloc
// does not provide it.
#pragma once

#include <optional>

#include "engine/core/arena.h"

namespace recollect::cuda {

// The memory is not zeroed. Empty if the device does not support this or has too little free memory.
std::optional<Arena> reserve_shareable(int ordinal, std::size_t bytes);

}  // namespace recollect::cuda
