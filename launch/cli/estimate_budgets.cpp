#include "launch/cli/estimate_budgets.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "launch/program/compare_budgets.h"

namespace recollect {

namespace {

using OrderedJson = nlohmann::ordered_json;

double in_mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Without any limit: the table says which budgets they fit.
std::vector<Variant> named_modes(Config config) {
  config.device.memory_limit = 0;
  config.activation_checkpointing = {};
  std::vector<Variant> named;
  for (Variant& v : compare_variants(config))
    if (!v.partition && !v.host) named.push_back(std::move(v));
  return named;
}

}  // namespace

void print_policies(const Config& config, bool json) {
  const std::vector<PolicyEstimate> columns = compare_policies(config);
  const uint64_t budget = budget_of(config);
  if (json) {
    OrderedJson document{{"unit", "bytes, seconds"}, {"budget", budget}};
    for (const PolicyEstimate& column : columns)
      for (const LengthEstimate& l : column.lengths)
        document["policies"][column.policy].push_back(
            {{"length", l.length}, {"arena_bytes", l.arena_bytes}, {"step_seconds", l.step_seconds}});
    return fmt::print("{}\n", document.dump(2));
  }
  fmt::print(
      "step in ms and memory in MiB, by the longest sequence of a step; * is over the budget of {:.2f} "
      "MiB\n{:>8}",
      in_mib(budget), "length");
  for (const PolicyEstimate& column : columns) fmt::print("{:>24}", column.policy);
  fmt::print("\n");
  for (std::size_t i = 0; i < columns.front().lengths.size(); ++i) {
    fmt::print("{:>8}", columns.front().lengths[i].length);
    for (const PolicyEstimate& column : columns) {
      const LengthEstimate& l = column.lengths[i];
      fmt::print("{:>12.3f}{:>11.2f}{}", 1e3 * l.step_seconds, in_mib(l.arena_bytes),
                 l.arena_bytes > budget ? "*" : " ");
    }
    fmt::print("\n");
  }
}

void print_pareto(const Config& config, bool json) {
  const std::vector<BudgetEstimate> rows = estimate_budgets(config);
  const std::vector<Variant> named = named_modes(config);
  OrderedJson document = OrderedJson::array();
  if (!json) {
    fmt::print("step in ms within a budget; - does not fit\n{:>12}{:>12}{:>12}", "budget MiB", "takes MiB",
               "auto");
    for (const Variant& v : named) fmt::print("{:>17}", v.mode);
    fmt::print("\n");
  }
  for (const BudgetEstimate& row : rows) {
    OrderedJson one{{"budget", row.budget}, {"arena_bytes", row.arena_bytes}, {"auto", row.step_seconds}};
    if (!json)
      fmt::print("{:>12.2f}{:>12.2f}{:>12.3f}", in_mib(row.budget), in_mib(row.arena_bytes),
                 1e3 * row.step_seconds);
    for (const Variant& v : named) {
      const bool fits = v.estimate.memory.arena_bytes() <= row.budget;
      const double seconds = v.estimate.simulation.step_seconds;
      if (json && fits) one[v.mode] = seconds;
      if (!json) fmt::print("{:>17}", fits ? fmt::format("{:.3f}", 1e3 * seconds) : "-");
    }
    if (!json) fmt::print("\n");
    document.push_back(std::move(one));
  }
  if (json) fmt::print("{}\n", document.dump(2));
}

}  // namespace recollect
