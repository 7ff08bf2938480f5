#include "launch/report/memory_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "launch/report/units.h"

namespace recollect {

namespace {

// Numbers that travel in one collective.
constexpr int kLedgerNumbers = kPhaseCount * kCategoryCount + 4;
constexpr int kNumbers = 2 * kLedgerNumbers + 9;

void append(std::vector<double>& numbers, const MemoryLedger& ledger) {
  for (const auto& row : ledger.at_peak) numbers.insert(numbers.end(), row.begin(), row.end());
  for (const uint64_t bytes :
       {ledger.persistent_bytes, ledger.transient_bytes, ledger.host_bytes, ledger.disk_bytes})
    numbers.push_back(static_cast<double>(bytes));
}

MemoryLedger take_ledger(const double*& number) {
  MemoryLedger ledger;
  const auto next = [&] { return static_cast<uint64_t>(*number++); };
  for (auto& row : ledger.at_peak)
    for (uint64_t& bytes : row) bytes = next();
  for (uint64_t* bytes :
       {&ledger.persistent_bytes, &ledger.transient_bytes, &ledger.host_bytes, &ledger.disk_bytes})
    *bytes = next();
  return ledger;
}

const MemoryLedger& best_known(const RankMemory& rank) {
  return rank.measured ? *rank.measured : rank.foretold;
}

const ByteUnit& unit_of(std::span<const RankMemory> ranks) {
  uint64_t most = 0;
  for (const RankMemory& rank : ranks)
    most = std::max({most, best_known(rank).arena_bytes(), best_known(rank).host_bytes});
  return unit_for(most);
}

std::string cells(const std::string& name, const std::vector<std::string>& texts) {
  std::string line = fmt::format("{:<{}}", name, kNameWidth);
  for (const std::string& text : texts) line += fmt::format("{:>{}}", text, kCellWidth);
  return line + "\n";
}

// A rank's column, in the order of row_names().
std::vector<std::string> rank_column(const RankMemory& rank, const ByteUnit& unit) {
  const MemoryLedger& ledger = best_known(rank);
  int peak = 0;
  for (int p = 1; p < kPhaseCount; ++p)
    if (MemoryLedger::sum(ledger.at_peak[p]) > MemoryLedger::sum(ledger.at_peak[peak])) peak = p;
  std::vector<std::string> column;
  for (const uint64_t bytes : ledger.at_peak[peak]) column.push_back(unit(bytes));
  column.push_back(unit(ledger.peak()));
  column.emplace_back(name_of(static_cast<Phase>(peak)));
  column.push_back(unit(ledger.arena_bytes() - ledger.peak()));
  column.push_back(unit(ledger.arena_bytes()));
  column.push_back(unit(rank.foretold.arena_bytes()));
  column.push_back(rank.measured ? fmt::format("{}", static_cast<int64_t>(ledger.arena_bytes()) -
                                                         static_cast<int64_t>(rank.foretold.arena_bytes()))
                                 : "-");
  column.push_back(unit(ledger.host_bytes));
  column.push_back(unit(ledger.disk_bytes));
  column.push_back(unit(rank.communication_buffers));
  return column;
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (int c = 0; c < kCategoryCount; ++c) names.emplace_back(name_of(static_cast<Category>(c)));
  for (const char* name : {"at peak", "peak in", "unused at peak", "arena", "arena, foretold",
                           "difference, bytes", "host arena", "disk", "communicators"})
    names.emplace_back(name);
  return names;
}

using NamedLedger = std::pair<const char*, const MemoryLedger*>;

// Below the phases: what is reserved in all.
std::string arenas_text(const std::vector<NamedLedger>& ledgers, const ByteUnit& unit) {
  std::string text;
  for (const auto& [which, ledger] : ledgers) {
    const std::string suffix = ledgers.size() > 1 ? std::string(", ") + which : "";
    const uint64_t arena = ledger->arena_bytes();
    const auto line = [&](const char* name, uint64_t bytes) {
      return fmt::format("{:<{}}{:>{}}", name + suffix, kNameWidth, unit(bytes), kCellWidth);
    };
    text += fmt::format("{}   ({} bytes; {} unused at the peak)\n", line("device", arena), arena,
                        arena - ledger->peak());
    text += line("host", ledger->host_bytes) + "\n";
    if (ledger->disk_bytes > 0) text += line("disk", ledger->disk_bytes) + "\n";
  }
  return text;
}

}  // namespace

double median(std::span<const double> numbers) {
  std::vector<double> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

std::optional<std::size_t> outlier(std::span<const double> numbers) {
  if (std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end()) return {};
  const double middle = median(numbers);
  const auto far = std::max_element(numbers.begin(), numbers.end(), [&](double a, double b) {
    return std::abs(a - middle) < std::abs(b - middle);
  });
  return static_cast<std::size_t>(far - numbers.begin());
}

RankMemory memory_of(const RankReport& report) {
  return {report.foretold,
          report.measured,
          report.communication_buffers,
          report.step.measured_exposed.total(),
          report.beside_arena,
          report.device_communicators,
          report.step.waiting_on_any_stream(),
          report.resident};
}

std::vector<RankMemory> gather_memory(const RankMemory& mine, Communicator& world) {
  std::vector<double> numbers;  // exact: no run has 2^53 bytes
  append(numbers, mine.foretold);
  append(numbers, best_known(mine));
  numbers.push_back(mine.measured ? 1 : 0);
  numbers.push_back(static_cast<double>(mine.communication_buffers));
  numbers.push_back(static_cast<double>(mine.beside_arena));
  numbers.push_back(static_cast<double>(mine.device_communicators));
  numbers.push_back(mine.exposed_seconds);
  numbers.push_back(mine.waiting_seconds);
  for (const uint64_t bytes : {mine.resident.at_start, mine.resident.predicted, mine.resident.measured})
    numbers.push_back(static_cast<double>(bytes));
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(world.size()));
  world.all_gather({numbers.data(), {kNumbers}, DType::kF64},
                   {all.data(), {static_cast<int64_t>(all.size())}, DType::kF64});
  std::vector<RankMemory> ranks;
  for (const double* number = all.data(); number != all.data() + all.size();) {
    RankMemory rank{.foretold = take_ledger(number), .measured = {}};
    rank.measured = take_ledger(number);
    if (*number++ == 0) rank.measured.reset();
    rank.communication_buffers = static_cast<uint64_t>(*number++);
    rank.beside_arena = static_cast<uint64_t>(*number++);
    rank.device_communicators = static_cast<uint64_t>(*number++);
    rank.exposed_seconds = *number++;
    rank.waiting_seconds = *number++;
    for (uint64_t* bytes : {&rank.resident.at_start, &rank.resident.predicted, &rank.resident.measured})
      *bytes = static_cast<uint64_t>(*number++);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::string outliers_text(std::span<const RankMemory> ranks) {
  const ByteUnit& unit = unit_of(ranks);
  if (ranks.size() < 2) return {};
  std::vector<double> bytes, exposed, waiting;
  for (const RankMemory& rank : ranks) {
    bytes.push_back(static_cast<double>(best_known(rank).peak()));
    exposed.push_back(rank.exposed_seconds);
    waiting.push_back(rank.waiting_seconds);
  }
  std::string text = fmt::format("memory: all {} ranks alike\n", ranks.size());
  if (const auto far = outlier(bytes))
    text = fmt::format("memory: rank {} stands out with {} {} at its peak; the median is {}\n", *far,
                       unit(static_cast<uint64_t>(bytes[*far])), unit.name,
                       unit(static_cast<uint64_t>(median(bytes))));
  const auto longest = std::max_element(exposed.begin(), exposed.end());
  if (*longest > 0)
    text += fmt::format("exposed waits: rank {} has the most, {:.3f} ms a step; the median is {:.3f}\n",
                        longest - exposed.begin(), 1e3 * *longest, 1e3 * median(exposed));
  const auto [least, most] = std::minmax_element(waiting.begin(), waiting.end());
  if (*most > 0)
    text += fmt::format(
        "waiting for peers, hidden or not: rank {} the least, {:.3f} ms a step, rank {} the most, {:.3f} ms; "
        "the median is {:.3f}\n",
        least - waiting.begin(), 1e3 * *least, most - waiting.begin(), 1e3 * *most, 1e3 * median(waiting));
  return text;
}

std::string ranks_table(std::span<const RankMemory> ranks) {
  const ByteUnit& unit = unit_of(ranks);
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> columns;
  for (const RankMemory& rank : ranks) {
    heads.push_back(fmt::format("rank {}", columns.size()));
    columns.push_back(rank_column(rank, unit));
  }
  std::string text = cells(fmt::format("memory, {}", unit.name), heads);
  const std::vector<std::string> names = row_names();
  for (std::size_t row = 0; row < names.size(); ++row) {
    std::vector<std::string> line;
    for (const auto& column : columns) line.push_back(column[row]);
    text += cells(names[row], line);
  }
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankMemory& r) { return r.beside_arena > 0; })) {
    std::vector<std::string> beside, communicators;
    for (const RankMemory& rank : ranks) {
      beside.push_back(unit(rank.beside_arena));
      communicators.push_back(unit(rank.device_communicators));
    }
    text += cells("beside the arena", beside) + cells("  communicators", communicators);
  }
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankMemory& r) { return r.resident.predicted > 0; })) {
    std::vector<std::string> predicted, measured;
    for (const RankMemory& rank : ranks) {
      predicted.push_back(unit(rank.resident.predicted));
      measured.push_back(unit(rank.resident.measured));
    }
    text += cells("resident, predicted", predicted) + cells("resident, measured", measured);
  }
  return text + outliers_text(ranks);
}

std::string phase_table(const std::string& title, const MemoryLedger& foretold,
                        const MemoryLedger* measured) {
  std::vector<NamedLedger> ledgers{{"foretold", &foretold}};
  if (measured) ledgers.emplace_back("measured", measured);
  const ByteUnit& unit = unit_for(std::max(foretold.arena_bytes(), foretold.host_bytes));
  const auto row = [&](std::string_view name, const auto& cell) {
    std::vector<std::string> line;
    for (int p = 0; p < kPhaseCount; ++p)
      for (const auto& [which, ledger] : ledgers) line.push_back(cell(*ledger, p));
    return cells(std::string(name), line);
  };
  std::string text = fmt::format("{:<{}}", fmt::format("{}, {}", title, unit.name), kNameWidth);
  for (int p = 0; p < kPhaseCount; ++p)
    text += fmt::format("{:>{}}", name_of(static_cast<Phase>(p)), kCellWidth * ledgers.size());
  text += '\n';
  if (measured)
    text += row("", [&](const MemoryLedger& l, int) { return &l == measured ? "measured" : "foretold"; });
  for (int c = 0; c < kCategoryCount; ++c)
    text += row(name_of(static_cast<Category>(c)),
                [&](const MemoryLedger& l, int p) { return unit(l.at_peak[p][c]); });
  text += row("at peak", [&](const MemoryLedger& l, int p) { return unit(MemoryLedger::sum(l.at_peak[p])); });
  for (int p = 0; p < kPhaseCount; ++p)
    if (!foretold.peak_op[p].empty())
      text += fmt::format("  peak of {} in {}\n", name_of(static_cast<Phase>(p)), foretold.peak_op[p]);
  return text + arenas_text(ledgers, unit);
}

std::string rank_text(const RankReport& report) {
  const std::string name = fmt::format("rank {}", report.rank);
  std::string text = phase_table(name, report.foretold, report.measured ? &*report.measured : nullptr);
  for (const auto& [key, sentence] : report.sentences)
    text += fmt::format("{}, {}: {}\n", name, key, sentence);
  return text + step_text(report.step);
}

}  // namespace recollect
