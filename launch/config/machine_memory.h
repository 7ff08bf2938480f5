// What a run may take where nobody says how much, and its device is the machine itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/config/config.h"

namespace recollect {

inline constexpr const char* kMemoryBudget = "activation_checkpointing.memory_budget";

struct MachineShare {
  int64_t bytes = 0;  // of a rank, in whole MiB
  std::string from;   // "nine tenths of this machine's 23.54 GiB for 2 ranks"
};

// Nine tenths of what the machine or its control group has, divided by the ranks that are there: those that a launcher
// counts, else all that the configuration has. The rest is for what a process holds beside its arena, and for the system.
// Nothing on a GPU, and where the system does not say.
std::optional<MachineShare> machine_share(const Config& config);

// "activation_checkpointing.memory_budget is 21.18 GiB: nine tenths of ..."; "" where the budget was given, or is not needed.
std::string said_of_budget(const Config& config);

}  // namespace recollect
