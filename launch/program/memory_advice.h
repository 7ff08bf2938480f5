// Advice for a run that does not fit in memory, from the category that takes the most and from the settings
// that it does not use yet.
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
// At the peak of a step.
LargestCategory largest_category(const MemoryLedger& memory);

// "and most of it is optimizer, 123 bytes"
std::string most_of_it(const MemoryLedger& memory);

// The keys to set, the most helpful first.
std::string memory_advice(const Config& config, const MemoryLedger& memory);

// An Error kDeviceMemory if the machine has less memory than `needed`, the total of `ranks` ranks with their
// arenas; empty if it has enough, or if its size is unknown.
std::optional<Error> machine_is_too_small(const Config& config, const MemoryLedger& memory, uint64_t needed,
                                          int ranks, std::optional<uint64_t> machine);

}  // namespace recollect
