#include "launch/cli/estimate_budgets.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/duration.h"
#include "engine/io/json.h"
#include "launch/config/padding.h"
#include "launch/program/limits.h"

namespace recollect {

namespace {

using OrderedJson = nlohmann::ordered_json;

double in_mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Of the sequences that are padded to the length of a row: the shortest.
int64_t shortest_of(const Config& config, int64_t length) {
  const int64_t multiple = length_multiple(config);
  return multiple == 0 ? 1 : (length - 1) / multiple * multiple + 1;
}

int64_t count_of(const LengthCounts& counts, int64_t length) {
  const auto found = counts.find(length);
  return found == counts.end() ? 0 : found->second;
}

OrderedJson policies_json(const Config& config, const std::vector<PolicyEstimate>& columns,
                          const LengthCounts& counts) {
  const uint64_t budget = budget_of(config);
  OrderedJson document{{"unit", "bytes, seconds"}, {"budget", budget}};
  for (const PolicyEstimate& column : columns) {
    if (!column.recomputed.empty()) document["recompute_layers"] = column.recomputed;
    for (const LengthEstimate& l : column.lengths) {
      OrderedJson row{{"length", l.length},
                      {"shortest", shortest_of(config, l.length)},
                      {"arena_bytes", l.arena_bytes},
                      {"fits", l.arena_bytes <= budget},
                      {"step_seconds", l.step_seconds}};
      if (!counts.empty()) row["micro_batches"] = count_of(counts, l.length);
      document["policies"][column.policy].push_back(std::move(row));
    }
    if (!counts.empty()) document["epoch_seconds"][column.policy] = column.epoch_seconds;
  }
  return document;
}

// A row for each budget: of every mode that fits it, the step's seconds.
OrderedJson pareto_json(const BudgetComparison& budgets) {
  OrderedJson document = OrderedJson::array();
  const std::vector<BudgetPoint>& first = budgets.curves.front().points;
  for (std::size_t i = 0; i < first.size(); ++i) {
    OrderedJson row{{"budget", first[i].budget}, {"arena_bytes", first[i].arena_bytes}};
    for (const BudgetCurve& curve : budgets.curves)
      if (curve.points[i].arena_bytes > 0) row[curve.mode] = curve.points[i].step_seconds;
    for (const NamedMode& one : budgets.named)
      if (one.arena_bytes <= first[i].budget) row[one.mode] = one.step_seconds;
    document.push_back(std::move(row));
  }
  return document;
}

// Whose times a table has.
std::string rates_of_table(const Config& config) {
  if (config.device.of_machine) return kRatesOfMachine;
  const std::string& model = config.device.model;
  return rates_of(model) + (tells_times(model) ? "" : ", which is of no machine in particular");
}

}  // namespace

void print_policies(const Config& config, const LengthCounts& counts, bool json) {
  const std::vector<PolicyEstimate> columns = compare_policies(config, counts);
  const uint64_t budget = budget_of(config);
  if (json) return fmt::print("{}\n", policies_json(config, columns, counts).dump(2));
  double longest = 0;
  for (const PolicyEstimate& column : columns)
    for (const LengthEstimate& l : column.lengths) longest = std::max(longest, l.step_seconds);
  const DurationUnit& time = duration_unit_for(longest);
  fmt::print(
      "step in {} by {}, and memory in MiB, by the longest sequence of a step; * is over the budget of "
      "{:.2f} "
      "MiB\n{:>8}{:>8}",
      time.name, rates_of_table(config), in_mib(budget), "length", "from");
  if (!counts.empty()) fmt::print("{:>9}", "batches");
  for (const PolicyEstimate& column : columns) fmt::print("{:>23} ", column.policy);
  fmt::print("\n");
  for (std::size_t i = 0; i < columns.front().lengths.size(); ++i) {
    const int64_t length = columns.front().lengths[i].length;
    fmt::print("{:>8}{:>8}", length, shortest_of(config, length));
    if (!counts.empty()) fmt::print("{:>9}", count_of(counts, length));
    for (const PolicyEstimate& column : columns) {
      const LengthEstimate& l = column.lengths[i];
      fmt::print("{:>12.3f}{:>11.2f}{}", time(l.step_seconds), in_mib(l.arena_bytes),
                 l.arena_bytes > budget ? "*" : " ");
    }
    fmt::print("\n");
  }
  if (!counts.empty()) {
    const DurationUnit& epoch = duration_unit_for(columns.front().epoch_seconds);
    fmt::print("an epoch, {}{:>{}.3f}", epoch.name, epoch(columns.front().epoch_seconds),
               37 - 10 - static_cast<int>(std::string_view(epoch.name).size()));
    for (std::size_t c = 1; c < columns.size(); ++c) fmt::print("{:>24.3f}", epoch(columns[c].epoch_seconds));
    fmt::print("\n");
  }
  for (const PolicyEstimate& column : columns)
    if (!column.recomputed.empty())
      fmt::print("fixed: recompute_layers [{}]\n", fmt::join(column.recomputed, ", "));
  if (columns.size() == kSpellings<BudgetPolicy>.size())
    fmt::print("dtr: no plan for the longest within the budget\n");
}

void print_pareto(const Config& config, const BudgetComparison& budgets, bool json) {
  if (json) return fmt::print("{}\n", pareto_json(budgets).dump(2));
  double longest = 0;
  for (const BudgetCurve& curve : budgets.curves)
    for (const BudgetPoint& point : curve.points) longest = std::max(longest, point.step_seconds);
  for (const NamedMode& one : budgets.named) longest = std::max(longest, one.step_seconds);
  const DurationUnit& time = duration_unit_for(longest);
  fmt::print("step in {} within a budget, by {}; - does not fit\n{:>12}{:>12}", time.name,
             rates_of_table(config), "budget MiB", "takes MiB");
  for (const BudgetCurve& curve : budgets.curves) fmt::print("{:>12}", curve.mode);
  fmt::print("\n");
  const auto cell = [&](bool fits, double seconds) {
    return fits ? fmt::format("{:.3f}", time(seconds)) : std::string("-");
  };
  const std::vector<BudgetPoint>& first = budgets.curves.front().points;
  for (std::size_t i = 0; i < first.size(); ++i) {
    fmt::print("{:>12.2f}{:>12.2f}", in_mib(first[i].budget), in_mib(first[i].arena_bytes));
    for (const BudgetCurve& curve : budgets.curves)
      fmt::print("{:>12}", cell(curve.points[i].arena_bytes > 0, curve.points[i].step_seconds));
    fmt::print("\n");
  }
  // These are the same in every budget that they fit.
  fmt::print("{:>12}{:>12}  {}\n", "takes MiB", fmt::format("step {}", time.name),
             "named mode, switches off");
  for (const NamedMode& one : budgets.named)
    fmt::print("{:>12}{:>12.3f}  {}\n", fmt::format("{:.2f}", in_mib(one.arena_bytes)),
               time(one.step_seconds), one.mode);
}

}  // namespace recollect
