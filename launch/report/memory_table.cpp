#include "launch/report/memory_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "launch/program/phase_table.h"
#include "launch/program/units.h"
#include "launch/report/profile.h"

namespace recollect {

namespace {

// The numbers that one collective transfers.
constexpr int kLedgerNumbers = (kPhaseCount + 1) * kCategoryCount + 4;
constexpr int kNumbers = 2 * kLedgerNumbers + 13;

void append(std::vector<double>& numbers, const MemoryLedger& ledger) {
  for (const auto& row : ledger.at_peak) numbers.insert(numbers.end(), row.begin(), row.end());
  numbers.insert(numbers.end(), ledger.loaded.begin(), ledger.loaded.end());
  for (const uint64_t bytes :
       {ledger.persistent_bytes, ledger.transient_bytes, ledger.host_bytes, ledger.disk_bytes})
    numbers.push_back(static_cast<double>(bytes));
}

MemoryLedger take_ledger(const double*& number) {
  MemoryLedger ledger;
  const auto next = [&] { return static_cast<uint64_t>(*number++); };
  for (auto& row : ledger.at_peak)
    for (uint64_t& bytes : row) bytes = next();
  for (uint64_t& bytes : ledger.loaded) bytes = next();
  for (uint64_t* bytes :
       {&ledger.persistent_bytes, &ledger.transient_bytes, &ledger.host_bytes, &ledger.disk_bytes})
    *bytes = next();
  return ledger;
}

const MemoryLedger& best_known(const RankMemory& rank) {
  return rank.measured ? *rank.measured : rank.predicted;
}

const ByteUnit& unit_of(std::span<const RankMemory> ranks) {
  uint64_t most = 0;
  for (const RankMemory& rank : ranks) most = std::max({most, rank.reserved.arena, rank.reserved.host});
  return unit_for(most);
}

// A rank's column, in the order of row_names().
std::vector<std::string> rank_column(const RankMemory& rank, const ByteUnit& unit) {
  const MemoryLedger& ledger = best_known(rank);
  int peak = 0;
  for (int p = 1; p < kPhaseCount; ++p)
    if (MemoryLedger::sum(ledger.at_peak[p]) > MemoryLedger::sum(ledger.at_peak[peak])) peak = p;
  std::vector<std::string> column;
  for (int c = 0; c < kStepCategoryCount; ++c) column.push_back(unit(ledger.at_peak[peak][c]));
  column.push_back(unit(ledger.peak()));
  column.emplace_back(name_of(static_cast<Phase>(peak)));
  column.push_back(unit(rank.reserved.arena - ledger.peak()));
  column.push_back(unit(rank.reserved.arena));
  column.push_back(unit(rank.reserved.arena_predicted));
  column.push_back(rank.measured ? fmt::format("{}", static_cast<int64_t>(ledger.arena_bytes()) -
                                                         static_cast<int64_t>(rank.predicted.arena_bytes()))
                                 : "-");
  column.push_back(unit(rank.reserved.host));
  column.push_back(unit(rank.reserved.disk));
  column.push_back(unit(rank.communication_buffers));
  return column;
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (int c = 0; c < kStepCategoryCount; ++c) names.emplace_back(name_of(static_cast<Category>(c)));
  for (const char* name : {"arena peak", "peak in", "unused at peak", "arena", "arena, predicted",
                           "difference, bytes", "host arena", "disk", "communicators"})
    names.emplace_back(name);
  return names;
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
  return {report.predicted,
          report.measured,
          report.communication_buffers,
          report.step.measured_exposed.total(),
          report.beside_arena,
          report.device_communicators,
          report.step.waiting_on_any_stream(),
          report.resident,
          report.reserved};
}

std::vector<RankMemory> gather_memory(const RankMemory& mine, Communicator& world) {
  std::vector<double> numbers;  // exact, because no run has 2^53 bytes
  append(numbers, mine.predicted);
  append(numbers, best_known(mine));
  numbers.push_back(mine.measured ? 1 : 0);
  numbers.push_back(static_cast<double>(mine.communication_buffers));
  numbers.push_back(static_cast<double>(mine.beside_arena));
  numbers.push_back(static_cast<double>(mine.device_communicators));
  numbers.push_back(mine.exposed_seconds);
  numbers.push_back(mine.waiting_seconds);
  for (const uint64_t bytes :
       {mine.resident.at_start, mine.resident.predicted, mine.resident.measured,
        mine.reserved.arena_predicted, mine.reserved.arena, mine.reserved.host, mine.reserved.disk})
    numbers.push_back(static_cast<double>(bytes));
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(world.size()));
  world.all_gather({numbers.data(), {kNumbers}, DType::kF64},
                   {all.data(), {static_cast<int64_t>(all.size())}, DType::kF64});
  std::vector<RankMemory> ranks;
  for (const double* number = all.data(); number != all.data() + all.size();) {
    RankMemory rank{.predicted = take_ledger(number), .measured = {}};
    rank.measured = take_ledger(number);
    if (*number++ == 0) rank.measured.reset();
    rank.communication_buffers = static_cast<uint64_t>(*number++);
    rank.beside_arena = static_cast<uint64_t>(*number++);
    rank.device_communicators = static_cast<uint64_t>(*number++);
    rank.exposed_seconds = *number++;
    rank.waiting_seconds = *number++;
    for (uint64_t* bytes :
         {&rank.resident.at_start, &rank.resident.predicted, &rank.resident.measured,
          &rank.reserved.arena_predicted, &rank.reserved.arena, &rank.reserved.host, &rank.reserved.disk})
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
    text = fmt::format("memory: rank {} stands out with an arena peak of {} {}; the median is {}\n", *far,
                       unit(static_cast<uint64_t>(bytes[*far])), unit.name,
                       unit(static_cast<uint64_t>(median(bytes))));
  const auto longest = std::max_element(exposed.begin(), exposed.end());
  if (*longest > 0)
    text += fmt::format("exposed waits: rank {} has the most, {} a step; the median is {}\n",
                        longest - exposed.begin(), duration_text(*longest), duration_text(median(exposed)));
  const auto [least, most] = std::minmax_element(waiting.begin(), waiting.end());
  if (*most > 0)
    text += fmt::format(
        "waiting for peers, hidden or not: rank {} the least, {} a step, rank {} the most, {}; the median is "
        "{}\n",
        least - waiting.begin(), duration_text(*least), most - waiting.begin(), duration_text(*most),
        duration_text(median(waiting)));
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
  std::string text = table_row(fmt::format("memory, {}", unit.name), heads);
  const std::vector<std::string> names = row_names();
  for (std::size_t row = 0; row < names.size(); ++row) {
    std::vector<std::string> line;
    for (const auto& column : columns) line.push_back(column[row]);
    text += table_row(names[row], line);
  }
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankMemory& r) { return r.beside_arena > 0; })) {
    std::vector<std::string> beside, communicators;
    for (const RankMemory& rank : ranks) {
      beside.push_back(unit(rank.beside_arena));
      communicators.push_back(unit(rank.device_communicators));
    }
    text += table_row("beside the arena", beside) + table_row("  communicators", communicators);
  }
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankMemory& r) { return r.resident.predicted > 0; })) {
    std::vector<std::string> predicted, measured;
    for (const RankMemory& rank : ranks) {
      predicted.push_back(unit(rank.resident.predicted));
      measured.push_back(unit(rank.resident.measured));
    }
    text += table_row("resident, predicted", predicted) + table_row("resident, measured", measured);
  }
  return text + outliers_text(ranks);
}

std::string rank_text(const RankReport& report) {
  const std::string name = fmt::format("rank {}", report.rank);
  std::string text = phase_table(name, report.predicted, report.measured ? &*report.measured : nullptr);
  for (const auto& [key, sentence] : report.sentences)
    text += fmt::format("{}, {}: {}\n", name, key, sentence);
  text += lengths_text(report.lengths) + step_text(report.step);
  return report.timeline.measured ? text + classes_line(make_profile(report.timeline)) : text;
}

}  // namespace recollect
