#include "launch/program/compare_budgets.h"

#include <algorithm>

#include "launch/program/lengths.h"

namespace recollect {

namespace {

constexpr std::size_t kMostLengths = 12;
constexpr uint64_t kBudgets = 16;

Config with_policy(const Config& config, BudgetPolicy policy) {
  Config changed = config;
  CheckpointingSettings& c = changed.activation_checkpointing;
  c.mode = CheckpointingMode::kAuto;
  c.budget_policy = policy;
  c.replan_after = 0;
  if (policy != BudgetPolicy::kFixed) c.recompute_layers.clear();
  if (policy == BudgetPolicy::kStatic || policy == BudgetPolicy::kDynamic) return changed;
  c.memory_budget = c.host_memory_budget = 0;  // its plan follows from no budget
  changed.device.memory_limit = 0;
  return changed;
}

LengthEstimate length_estimate(const Config& config, const TrainingProgram& training, int64_t length) {
  const Program& program = training.program;
  return {
      length, program.predicted().arena_bytes(),
      simulate(program.graph, program.schedule, training.device, config.training.gradient_accumulation_steps)
          .step_seconds};
}

// At most so many of them, the longest first.
std::vector<BatchShape> some_shapes(const Config& config) {
  const std::vector<BatchShape> all = all_batch_shapes(config);
  const std::size_t count = std::min(kMostLengths, all.size());
  std::vector<BatchShape> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

TrainingProgram plan_with_budget(const PlannedRank& rank, Config config, uint64_t bytes) {
  CheckpointingSettings& c = config.activation_checkpointing;
  c.mode = CheckpointingMode::kAuto;
  c.budget_policy = BudgetPolicy::kDynamic;
  c.memory_budget = static_cast<int64_t>(bytes);
  config.device.memory_limit = 0;
  return rank.plan(config);
}

}  // namespace

uint64_t budget_of(const Config& config) {
  const int64_t limit = config.device.memory_limit, budget = config.activation_checkpointing.memory_budget;
  return static_cast<uint64_t>(limit == 0 || budget == 0 ? std::max(limit, budget) : std::min(limit, budget));
}

std::vector<PolicyEstimate> compare_policies(const Config& config) {
  if (budget_of(config) == 0)
    throw Error(ExitCode::kConfiguration, "--policies needs a budget that plans must fit",
                "give activation_checkpointing.memory_budget or device.memory_limit");
  std::vector<BudgetPolicy> policies{BudgetPolicy::kNone, BudgetPolicy::kFull, BudgetPolicy::kStatic,
                                     BudgetPolicy::kDynamic};
  if (!config.activation_checkpointing.recompute_layers.empty()) policies.push_back(BudgetPolicy::kFixed);
  const PlannedRank rank(config, 0, 0);
  const std::vector<BatchShape> shapes = some_shapes(config);
  std::vector<PolicyEstimate> columns;
  for (BudgetPolicy policy : policies) {
    const Config changed = with_policy(config, policy);
    const TrainingProgram longest = rank.require_plan(changed);
    PolicyEstimate column{.policy = std::string(name_of(policy)), .lengths = {}};
    for (const BatchShape& shape : shapes)
      column.lengths.push_back(
          &shape == &shapes.front()
              ? length_estimate(changed, longest, shape.sequence_length)
              : length_estimate(changed, rank.plan_shorter(changed, shape, longest), shape.sequence_length));
    std::reverse(column.lengths.begin(), column.lengths.end());
    columns.push_back(std::move(column));
  }
  return columns;
}

std::vector<BudgetEstimate> estimate_budgets(const Config& config) {
  const PlannedRank rank(config, 0, 0);
  const uint64_t most =
      rank.require_plan(with_policy(config, BudgetPolicy::kNone)).program.predicted().arena_bytes();
  uint64_t low = 0, high = most;  // the smallest budget that works, to a thousandth of the largest
  while (high - low > most / 1000 + 1) {
    const uint64_t middle = low + (high - low) / 2;
    const TrainingProgram tried = plan_with_budget(rank, config, middle);
    if (tried.checkpointed.refusal)
      low = middle;
    else
      high = tried.program.predicted().arena_bytes();
  }
  std::vector<BudgetEstimate> rows;
  for (uint64_t i = 0; i <= kBudgets; ++i) {
    const uint64_t budget =
        high + (most - high) / kBudgets * i + (i == kBudgets ? (most - high) % kBudgets : 0);
    const TrainingProgram training = plan_with_budget(rank, config, budget);
    const LengthEstimate found = length_estimate(config, training, 0);
    rows.push_back({budget, found.arena_bytes, found.step_seconds});
  }
  return rows;
}

}  // namespace recollect
