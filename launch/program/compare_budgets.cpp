#include "launch/program/compare_budgets.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "launch/program/lengths.h"
#include "launch/program/limits.h"

namespace recollect {

namespace {

constexpr std::size_t kMostLengths = 12;
constexpr uint64_t kEvenSteps = 12;

Config with_policy(const Config& config, BudgetPolicy policy, const std::vector<std::string>& layers = {}) {
  Config changed = config;
  CheckpointingSettings& c = changed.activation_checkpointing;
  c.mode = CheckpointingMode::kAuto;
  c.budget_policy = policy;
  c.recompute_layers = layers;
  c.k = c.number_checkpoints = c.replan_after = 0;
  c.plan.clear();
  c.is_compared = true;
  if (policy == BudgetPolicy::kStatic || policy == BudgetPolicy::kDynamic) return changed;
  c.memory_budget = c.host_memory_budget = 0;  // its plan does not depend on a budget
  changed.device.memory_limit = 0;
  return changed;
}

double step_seconds(const Config& config, const TrainingProgram& training) {
  return simulate(training.program.graph, training.program.schedule, training.device,
                  config.training.gradient_accumulation_steps)
      .step_seconds;
}

// The ratio of step times by this machine's rates to those by the planner's rates, for this configuration
// without checkpointing. All plans use the same ratio, so that their order does not change.
double factor_of_machine(const PlannedRank& rank, const Config& config) {
  if (!config.device.of_machine) return 1;
  const Config none = without_checkpointing(config);
  const TrainingProgram training = rank.plan(none);
  return simulate(training.program.graph, training.program.schedule, training.shown,
                  none.training.gradient_accumulation_steps)
             .step_seconds /
         step_seconds(none, training);
}

LengthEstimate length_estimate(const Config& config, const TrainingProgram& training, int64_t length) {
  return {length, training.program.predicted().arena_bytes(), step_seconds(config, training)};
}

// The longest possible shape first, because memory is reserved for it. Then those of `counts`, or a limited
// number of all shapes.
std::vector<BatchShape> some_shapes(const Config& config, const LengthCounts& counts) {
  const std::vector<BatchShape> all = all_batch_shapes(config);
  std::vector<BatchShape> some{all.front()};
  if (!counts.empty()) {
    for (const BatchShape& shape : all)
      if (shape.sequence_length < all.front().sequence_length && counts.contains(shape.sequence_length))
        some.push_back(shape);
    return some;
  }
  const std::size_t count = std::min(kMostLengths, all.size());
  for (std::size_t i = 1; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

// Empty if a length has no plan.
std::optional<PolicyEstimate> lengths_with(const PlannedRank& rank, const Config& changed,
                                           const std::vector<BatchShape>& shapes, PolicyEstimate column) {
  const TrainingProgram longest = rank.plan(changed);
  if (longest.checkpointed.refusal) return {};
  for (std::size_t i = shapes.size(); i-- > 1;)
    column.lengths.push_back(
        length_estimate(changed, rank.plan_shorter(changed, shapes[i], longest), shapes[i].sequence_length));
  column.lengths.push_back(length_estimate(changed, longest, shapes.front().sequence_length));
  return column;
}

PolicyEstimate policy_estimate(const PlannedRank& rank, const Config& config, BudgetPolicy policy,
                               const std::vector<BatchShape>& shapes) {
  PolicyEstimate column{.policy = std::string(name_of(policy))};
  if (policy == BudgetPolicy::kFixed) column.recomputed = config.activation_checkpointing.recompute_layers;
  const bool by_static = policy == BudgetPolicy::kFixed && column.recomputed.empty();
  const Config changed = with_policy(config, by_static ? BudgetPolicy::kStatic : policy, column.recomputed);
  std::optional<PolicyEstimate> done = lengths_with(rank, changed, shapes, std::move(column));
  if (!done) throw *rank.plan(changed).checkpointed.refusal;
  return *std::move(done);
}

std::optional<PolicyEstimate> dtr_estimate(const PlannedRank& rank, const Config& config,
                                           const std::vector<BatchShape>& shapes) {
  Config changed = with_policy(config, BudgetPolicy::kDynamic);
  changed.activation_checkpointing.mode = CheckpointingMode::kDtr;
  changed.activation_checkpointing.host_memory_budget = 0;
  return lengths_with(rank, changed, shapes, {.policy = "dtr"});
}

TrainingProgram plan_in_mode(const PlannedRank& rank, Config config, CheckpointingMode mode,
                             uint64_t budget) {
  CheckpointingSettings& c = config.activation_checkpointing;
  const int64_t k =
      mode == CheckpointingMode::kEveryK || mode == CheckpointingMode::kAuto ? (c.k > 0 ? c.k : 2) : 0;
  if (mode == CheckpointingMode::kAuto || mode == CheckpointingMode::kDtr) {  // with the switches of a run
    c.budget_policy = BudgetPolicy::kDynamic;
    c.number_checkpoints = c.replan_after = 0;
    c.recompute_layers.clear();
    c.plan.clear();
    c.is_compared = true;
    if (mode == CheckpointingMode::kDtr) c.host_memory_budget = 0;
  } else {
    c = {};
  }
  c.mode = mode;
  c.k = k;
  c.memory_budget = static_cast<int64_t>(budget);
  config.device.memory_limit = 0;
  return rank.plan(config);
}

std::vector<NamedMode> named_modes(const PlannedRank& rank, const Config& config) {
  std::vector<NamedMode> named;
  for (std::size_t i = 0; i < kNamedModes.size(); ++i) {
    const auto mode = static_cast<CheckpointingMode>(i);
    const TrainingProgram training = plan_in_mode(rank, config, mode, 0);
    if (training.checkpointed.refusal) continue;  // the mode would have no effect
    const int64_t k = config.activation_checkpointing.k > 0 ? config.activation_checkpointing.k : 2;
    named.push_back(
        {mode == CheckpointingMode::kEveryK ? fmt::format("every_k {}", k) : std::string(name_of(mode)),
         training.program.predicted().arena_bytes(), step_seconds(config, training)});
  }
  return named;
}

// The smallest budget that works, to a thousandth of `most`: goes down from a budget that works in growing
// steps, then bisects.
uint64_t smallest_budget(const PlannedRank& rank, const Config& config, uint64_t works, uint64_t most) {
  const uint64_t close = most / 1000 + 1;
  uint64_t low = 0, step = close;
  while (works - low > close) {
    const uint64_t budget = low > 0 ? low + (works - low) / 2 : works - std::min(step, works - 1);
    const TrainingProgram tried = plan_in_mode(rank, config, CheckpointingMode::kAuto, budget);
    (tried.checkpointed.refusal ? low : works) = budget;
    step *= 2;
  }
  return works;
}

// Budgets in even steps, and the memory of each named mode.
std::vector<uint64_t> budgets_between(uint64_t least, uint64_t most, const std::vector<NamedMode>& named) {
  std::vector<uint64_t> budgets{most};
  for (uint64_t step = 0; step < kEvenSteps; ++step)
    budgets.push_back(least + (most - least) / kEvenSteps * step);
  for (const NamedMode& one : named)
    if (one.arena_bytes > least && one.arena_bytes < most) budgets.push_back(one.arena_bytes);
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

BudgetPoint budget_point(const PlannedRank& rank, const Config& config, CheckpointingMode mode,
                         uint64_t budget) {
  const TrainingProgram training = plan_in_mode(rank, config, mode, budget);
  if (training.checkpointed.refusal) return {.budget = budget};
  return {budget, training.program.predicted().arena_bytes(), step_seconds(config, training)};
}

void check_trains(const Config& config, const char* option) {
  if (config.training.max_steps == 0)
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} compares what training saves, and training.max_steps is 0", option),
                "let it train");
}

}  // namespace

std::vector<PolicyEstimate> compare_policies(const Config& config, const LengthCounts& counts) {
  check_trains(config, "--policies");
  if (budget_of(config) == 0)
    throw Error(ExitCode::kConfiguration, "--policies needs a budget that plans must fit",
                "give activation_checkpointing.memory_budget or device.memory_limit");
  const PlannedRank rank(config, 0, 0);
  const std::vector<BatchShape> shapes = some_shapes(config, counts);
  std::vector<PolicyEstimate> columns;
  for (std::size_t i = 0; i < kSpellings<BudgetPolicy>.size(); ++i)
    columns.push_back(policy_estimate(rank, config, static_cast<BudgetPolicy>(i), shapes));
  if (std::optional<PolicyEstimate> dtr = dtr_estimate(rank, config, shapes)) columns.push_back(*dtr);
  const double factor = factor_of_machine(rank, config);
  for (PolicyEstimate& column : columns)
    for (LengthEstimate& at : column.lengths) at.step_seconds *= factor;
  const auto micro_batches = static_cast<double>(config.training.gradient_accumulation_steps);
  for (PolicyEstimate& column : columns)
    for (const LengthEstimate& at : column.lengths)
      if (const auto count = counts.find(at.length); count != counts.end())
        column.epoch_seconds += static_cast<double>(count->second) / micro_batches * at.step_seconds;
  return columns;
}

BudgetComparison compare_budgets(const Config& config) {
  check_trains(config, "--pareto");
  const PlannedRank rank(config, 0, 0);
  BudgetComparison all{.curves = {}, .named = named_modes(rank, config)};
  uint64_t most = 0, works = ~uint64_t{0};
  for (const NamedMode& one : all.named) {
    if (one.mode == name_of(CheckpointingMode::kNone)) most = one.arena_bytes;
    works = std::min(works, one.arena_bytes);
  }
  const std::vector<uint64_t> budgets =
      budgets_between(smallest_budget(rank, config, works, most), most, all.named);
  for (std::size_t i = kNamedModes.size(); i < kSpellings<CheckpointingMode>.size(); ++i) {
    const auto mode = static_cast<CheckpointingMode>(i);
    BudgetCurve curve{.mode = std::string(name_of(mode)), .points = {}};
    for (uint64_t budget : budgets) curve.points.push_back(budget_point(rank, config, mode, budget));
    all.curves.push_back(std::move(curve));
  }
  const double factor = factor_of_machine(rank, config);
  for (BudgetCurve& curve : all.curves)
    for (BudgetPoint& point : curve.points) point.step_seconds *= factor;
  for (NamedMode& one : all.named) one.step_seconds *= factor;
  return all;
}

}  // namespace recollect
