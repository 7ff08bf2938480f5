#include "launch/program/phase_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/program/units.h"

namespace recollect {

namespace {

using NamedLedger = std::pair<const char*, const MemoryLedger*>;

// "parameters 1.20, gradients 1.20": the cells of a row that are not zero.
std::string parts_text(const MemoryLedger::Row& row, const ByteUnit& unit) {
  std::string text;
  for (int c = 0; c < kCategoryCount; ++c)
    if (const std::string bytes = unit(row[c]); bytes != unit(0))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(static_cast<Category>(c)), bytes);
  return text;
}

// The lines below the phases: the memory before the first step, and the reserved memory.
std::string arenas_text(const std::vector<NamedLedger>& ledgers, const ByteUnit& unit) {
  std::string text;
  for (const auto& [which, ledger] : ledgers) {
    const std::string suffix = ledgers.size() > 1 ? std::string(", ") + which : "";
    const uint64_t arena = ledger->arena_bytes();
    const auto line = [&](const char* name, uint64_t bytes) {
      return fmt::format("{:<{}}{:>{}}", name + suffix, kNameWidth, unit(bytes), kCellWidth);
    };
    const uint64_t loaded = MemoryLedger::sum(ledger->loaded);
    text += fmt::format("{}   ({} bytes when the model is loaded, before the first step: {})\n",
                        line("loaded", loaded), loaded, parts_text(ledger->loaded, unit));
    text += fmt::format("{}   ({} bytes; {} unused at the peak)\n", line("device", arena), arena,
                        arena - ledger->peak());
    text += line("host", ledger->host_bytes) + "\n";
    if (ledger->disk_bytes > 0) text += line("disk", ledger->disk_bytes) + "\n";
    if (ledger->disk_state_bytes > 0) text += line("disk, states", ledger->disk_state_bytes) + "\n";
  }
  return text;
}

}  // namespace

std::string table_row(const std::string& name, const std::vector<std::string>& cells) {
  std::string line = fmt::format("{:<{}}", name, kNameWidth);
  for (const std::string& text : cells) line += fmt::format("{:>{}}", text, kCellWidth);
  return line + "\n";
}

std::string phase_table(const std::string& title, const MemoryLedger& predicted,
                        const MemoryLedger* measured) {
  std::vector<NamedLedger> ledgers{{"predicted", &predicted}};
  if (measured) ledgers.emplace_back("measured", measured);
  const ByteUnit& unit = unit_for(std::max(predicted.arena_bytes(), predicted.host_bytes));
  const auto row = [&](std::string_view name, const auto& cell) {
    std::vector<std::string> line;
    for (int p = 0; p < kPhaseCount; ++p)
      for (const auto& [which, ledger] : ledgers) line.push_back(cell(*ledger, p));
    return table_row(std::string(name), line);
  };
  std::string text = fmt::format("{:<{}}", fmt::format("{}, {}", title, unit.name), kNameWidth);
  for (int p = 0; p < kPhaseCount; ++p)
    text += fmt::format("{:>{}}", name_of(static_cast<Phase>(p)), kCellWidth * ledgers.size());
  text += '\n';
  if (measured)
    text += row("", [&](const MemoryLedger& l, int) { return &l == measured ? "measured" : "predicted"; });
  const bool caches = predicted.at_peak[0][static_cast<int>(Category::kCache)] > 0;
  for (int c = 0; c < (caches ? kCategoryCount : kStepCategoryCount); ++c)
    text += row(name_of(static_cast<Category>(c)),
                [&](const MemoryLedger& l, int p) { return unit(l.at_peak[p][c]); });
  text +=
      row("arena peak", [&](const MemoryLedger& l, int p) { return unit(MemoryLedger::sum(l.at_peak[p])); });
  for (int p = 0; p < kPhaseCount; ++p)
    if (!predicted.peak_op[p].empty())
      text += fmt::format("  peak of {} in {}\n", name_of(static_cast<Phase>(p)), predicted.peak_op[p]);
  return text + arenas_text(ledgers, unit);
}

}  // namespace recollect
