// Pinned host memory, which a device copies from and to at full speed. If the system cannot pin it and
// pinning is not required, plain memory is used and copies are slower.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/core/arena.h"

namespace recollect {

struct PinnedMemoryCalls {
  // Reserves pinned memory. Returns null if that fails and stores the reason in `why`.
  std::function<std::byte*(std::size_t bytes, std::string& why)> reserve;
  Arena::Release release;
};

// Returns zeroed memory. If it cannot be pinned, throws Error kHostMemory when `required`, else prints a
// warning.
Arena reserve_pinned(std::size_t bytes, bool required, const PinnedMemoryCalls& calls);

}  // namespace recollect
