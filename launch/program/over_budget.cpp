#include "launch/program/over_budget.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/byte_count.h"
#include "launch/program/memory_advice.h"

namespace recollect {

namespace {

Error over_budget(const std::string& found, const Config& config, const MemoryLedger& memory,
                  const std::string& otherwise = "") {
  return Error(ExitCode::kDeviceMemory, fmt::format("{}, {}", found, most_of_it(memory)),
               fmt::format("raise activation_checkpointing.memory_budget{}; {}", otherwise,
                           memory_advice(config, memory)));
}

}  // namespace

Error no_plan_fits(uint64_t budget, uint64_t smallest, const Config& config, const MemoryLedger& memory) {
  return over_budget(fmt::format("no plan fits {}: the smallest budget that works is {}", byte_count(budget),
                                 byte_count(smallest)),
                     config, memory);
}

Error plan_exceeds(uint64_t budget, const Config& config, const MemoryLedger& memory) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const bool of_longest = c.mode == CheckpointingMode::kDtr || c.budget_policy == BudgetPolicy::kDynamic ||
                          c.budget_policy == BudgetPolicy::kStatic;
  const std::string whose = of_longest ? "the plan of the longest sequences"
                                       : fmt::format("budget_policy {}", name_of(c.budget_policy));
  return over_budget(fmt::format("the budget is {}, and {} needs {}", byte_count(budget), whose,
                                 byte_count(memory.arena_bytes())),
                     config, memory, of_longest ? "" : ", or let budget_policy dynamic choose what is saved");
}

Error dtr_finds_none(uint64_t budget, const Config& config, const MemoryLedger& none,
                     const std::function<std::optional<DtrResult>(uint64_t)>& find,
                     const std::function<MemoryLedger(const Plan&)>& memory_of) {
  constexpr int kHalvings = 6;
  uint64_t low = std::max(budget, none.persistent_bytes), works = none.arena_bytes();
  MemoryLedger memory = none;
  for (int i = 0; i < kHalvings && works > low + 1; ++i) {
    const uint64_t middle = low + (works - low) / 2;
    if (const std::optional<DtrResult> found = find(middle)) {
      works = middle;
      memory = memory_of(found->plan);
    } else {
      low = middle;
    }
  }
  return over_budget(fmt::format("mode dtr finds no plan within {}: a budget that works is {}",
                                 byte_count(budget), byte_count(works)),
                     config, memory, ", or let mode auto find what takes less");
}

}  // namespace recollect
