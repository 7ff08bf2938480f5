#include "checkpointing/planner/chain.h"

#include <algorithm>

#include "checkpointing/planner/chain_costs.h"
#include "checkpointing/planner/chain_labels.h"
#include "checkpointing/planner/chain_search.h"

namespace recollect {

// Seconds are added as labels are: from the last layer on.
ChainPlan evaluate(const Chain& chain, const std::vector<int>& options) {
  const ChainCosts costs(chain);
  ChainPlan plan{.options = options};
  if (options.empty()) plan.device = chain.head_bytes;
  for (std::size_t i = options.size(); i-- > 0;) {
    const ChainCosts::Option& o = costs.layers[i][options[i]];
    double stall = 0;
    uint64_t behind = 0;
    if (i + 1 < options.size()) {
      stall = costs.stall(i, options[i], options[i + 1]);
      behind = std::max({plan.device, o.next, add_bytes(costs.layers[i + 1][options[i + 1]].back, o.ahead)});
    }
    plan.device = std::max(o.alone, add_bytes(o.held, behind));
    plan.host = add_bytes(plan.host, o.host);
    plan.disk = add_bytes(plan.disk, o.disk);
    plan.seconds = plan.seconds + o.seconds + stall;
  }
  return plan;
}

namespace {

std::optional<ChainPlan> solve_with(Effort effort, const Chain& chain, const ChainBudgets& budgets) {
  if (chain.layers.empty())
    return chain.head_bytes <= budgets.device ? std::optional(evaluate(chain, {})) : std::nullopt;
  const std::optional<FoundChoice> found = find_choice(ChainCosts(chain), budgets, effort);
  if (!found) return {};
  ChainPlan plan = evaluate(chain, found->options);
  plan.lower_bound = found->below;
  return plan;
}

// Of any choice.
uint64_t most_bytes(const Chain& chain, uint64_t ChainOption::*where) {
  uint64_t sum = 0;
  for (const ChainLayer& layer : chain.layers) {
    uint64_t most = 0;
    for (const ChainOption& option : layer.options) most = std::max(most, option.*where);
    sum = add_bytes(sum, most);
  }
  return sum;
}

std::vector<ChainPlan> in_one_pass(const Chain& chain, std::size_t points) {
  const ChainLabels labels{ChainCosts(chain)};
  const std::vector<ChainLabel>& whole = labels.whole();
  const std::size_t count = std::min(whole.size(), points);
  std::vector<ChainPlan> plans;
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t at = count > 1 ? n * (whole.size() - 1) / (count - 1) : whole.size() - 1;
    plans.push_back(evaluate(chain, labels.options(whole[at])));
  }
  return plans;
}

}  // namespace

std::optional<ChainPlan> solve(const Chain& chain, const ChainBudgets& budgets) {
  return solve_with(Effort::kClosely, chain, budgets);
}

std::vector<ChainPlan> frontier(const Chain& chain, uint64_t host, uint64_t disk, std::size_t points) {
  if (chain.layers.empty()) return {evaluate(chain, {})};
  std::vector<ChainPlan> unlimited = in_one_pass(chain, points);
  if (most_bytes(chain, &ChainOption::host) <= host && most_bytes(chain, &ChainOption::disk) <= disk)
    return unlimited;
  std::vector<ChainPlan> plans;
  for (const ChainPlan& there : unlimited) {
    std::optional<ChainPlan> plan = solve_with(Effort::kRoughly, chain, {there.device, host, disk});
    if (!plan || (!plans.empty() && plan->seconds >= plans.back().seconds)) continue;
    if (!plans.empty() && plan->device <= plans.back().device) plans.pop_back();
    plans.push_back(*std::move(plan));
  }
  return plans;
}

}  // namespace recollect
