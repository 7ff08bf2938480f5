// Errors for a run over memory_budget: the memory of its plan, the largest category, and what to do. All are
// kDeviceMemory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpointing/planner/dtr.h"
#include "engine/core/error.h"
#include "engine/runtime/layout.h"
#include "launch/config/config.h"

namespace recollect {

// For mode auto. `smallest` is the device memory of the smallest candidate.
Error no_plan_fits(uint64_t budget, uint64_t smallest, const Config& config, const MemoryLedger& memory);

// For a plan that does not depend on a budget, or was made for longer sequences.
Error plan_exceeds(uint64_t budget, const Config& config, const MemoryLedger& memory);

// For mode dtr. It is greedy, and may find a plan for a budget but none for a larger one. So the error names
// a budget for which it did find a plan. This budget is found by bisection, up to the memory of `none`, the
// plan of mode none.
Error dtr_finds_none(uint64_t budget, const Config& config, const MemoryLedger& none,
                     const std::function<std::optional<DtrResult>(uint64_t)>& find,
                     const std::function<MemoryLedger(const Plan&)>& memory_of);

}  // namespace recollect
