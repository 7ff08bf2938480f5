// Why a run is over memory_budget: what its plan takes, most of what that is, and what to do. All are errors kDeviceMemory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpointing/planner/dtr.h"
#include "engine/core/error.h"
#include "engine/runtime/layout.h"
#include "launch/config/config.h"

namespace recollect {

// Mode auto. `smallest`: device bytes of the least of its candidates.
Error no_plan_fits(uint64_t budget, uint64_t smallest, const Config& config, const MemoryLedger& memory);

// A plan that follows from no budget, or from that of longer sequences.
Error plan_exceeds(uint64_t budget, const Config& config, const MemoryLedger& memory);

// Greedy as mode dtr is, it may find a plan in one budget and none in a larger one: what is named is a budget in which it was
// seen to find one, looked for by halves up to what `none`, the plan of mode none, takes.
Error dtr_finds_none(uint64_t budget, const Config& config, const MemoryLedger& none,
                     const std::function<std::optional<DtrResult>(uint64_t)>& find,
                     const std::function<MemoryLedger(const Plan&)>& memory_of);

}  // namespace recollect
