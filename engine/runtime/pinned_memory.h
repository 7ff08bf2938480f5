// Host memory that a device copies from and to at full speed; or plain memory, and slower copies, where the system pins
// no more and nobody insists.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/core/arena.h"

namespace recollect {

struct PinnedMemoryCalls {
  // So many bytes, pinned; null where there are none, and why.
  std::function<std::byte*(std::size_t bytes, std::string& why)> reserve;
  Arena::Release release;
};

// Zeroed. Error kHostMemory where it is `required` and cannot be pinned; else a warning.
Arena reserve_pinned(std::size_t bytes, bool required, const PinnedMemoryCalls& calls);

}  // namespace recollect
