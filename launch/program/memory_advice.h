// What a run that does not fit in memory can do about it: by what takes most of it, and by what its configuration does not
// do yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/error.h"
#include "engine/runtime/ledger.h"
#include "launch/config/config.h"

namespace recollect {

struct LargestCategory {
  Category category = Category::kActivation;
  uint64_t bytes = 0;
};
// At the highest moment of a step.
LargestCategory largest_category(const MemoryLedger& memory);

// "and most of it is optimizer, 123 bytes"
std::string most_of_it(const MemoryLedger& memory);

// Keys to write, those that help most first.
std::string memory_advice(const Config& config, const MemoryLedger& memory);

// Of a run, `ranks` of which are on this machine and take `needed` bytes of its memory together, arenas and more: nothing
// where it has that much, or does not say. kDeviceMemory.
std::optional<Error> machine_is_too_small(const Config& config, const MemoryLedger& memory, uint64_t needed,
                                          int ranks, std::optional<uint64_t> machine);

}  // namespace recollect
