#include "launch/memory_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace recollect {

namespace {

// One rank's report as numbers, to travel in one collective.
constexpr int kLedgerNumbers = kPhaseCount * kCategoryCount + 3;
constexpr int kNumbers = 2 * kLedgerNumbers + 1;

void append(std::vector<int64_t>& numbers, const MemoryLedger& ledger) {
  for (const auto& row : ledger.at_peak)
    for (uint64_t bytes : row) numbers.push_back(static_cast<int64_t>(bytes));
  numbers.push_back(static_cast<int64_t>(ledger.persistent_bytes));
  numbers.push_back(static_cast<int64_t>(ledger.transient_bytes));
  numbers.push_back(static_cast<int64_t>(ledger.host_bytes));
}

std::string mib(int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

// A rank's column: the categories at that rank's highest phase, their sum, the arena, and what was foretold of it.
std::vector<std::string> column(const int64_t* numbers) {
  const int64_t* measured = numbers + kLedgerNumbers;
  const auto row_sum = [](const int64_t* row) {
    int64_t total = 0;
    for (int c = 0; c < kCategoryCount; ++c) total += row[c];
    return total;
  };
  int peak = 0;
  for (int p = 1; p < kPhaseCount; ++p)
    if (row_sum(measured + p * kCategoryCount) > row_sum(measured + peak * kCategoryCount)) peak = p;
  const int64_t* row = measured + peak * kCategoryCount;
  std::vector<std::string> cells;
  for (int c = 0; c < kCategoryCount; ++c) cells.push_back(mib(row[c]));
  cells.push_back(mib(row_sum(row)));
  cells.push_back(std::string(name_of(static_cast<Phase>(peak))));
  const auto arena = [](const int64_t* ledger) {
    return ledger[kPhaseCount * kCategoryCount] + ledger[kPhaseCount * kCategoryCount + 1];
  };
  cells.push_back(mib(arena(measured)));
  cells.push_back(mib(arena(numbers)));
  cells.push_back(fmt::format("{}", arena(measured) - arena(numbers)));
  cells.push_back(mib(measured[kLedgerNumbers - 1]));
  cells.push_back(mib(numbers[kNumbers - 1]));
  return cells;
}

}  // namespace

nlohmann::ordered_json ledger_json(const MemoryLedger& ledger) {
  nlohmann::ordered_json json;
  for (int p = 0; p < kPhaseCount; ++p) {
    nlohmann::ordered_json phase;
    for (int c = 0; c < kCategoryCount; ++c)
      phase[std::string(name_of(static_cast<Category>(c)))] = ledger.at_peak[p][c];
    phase["total"] = MemoryLedger::sum(ledger.at_peak[p]);
    phase["peak_op"] = ledger.peak_op[p];
    json[std::string(name_of(static_cast<Phase>(p)))] = phase;
  }
  json["peak"] = ledger.peak();
  json["arena"] = ledger.arena_bytes();
  json["unused_at_peak"] = ledger.arena_bytes() - ledger.peak();
  json["host_arena"] = ledger.host_bytes;
  json["pool"] = {{"bytes", ledger.pooled_bytes}, {"in_use_at_peak", ledger.pooled_peak}};
  return json;
}

std::string memory_json(const MemoryReport& report, int rank) {
  nlohmann::ordered_json json;
  json["rank"] = rank;
  json["unit"] = "bytes";
  json["foretold"] = ledger_json(report.foretold);
  json["measured"] = ledger_json(report.measured);
  json["communication_buffers"] = report.communication_buffers;
  for (const auto& [name, text] : report.checkpointing) json["activation_checkpointing"][name] = text;
  return json.dump(2) + "\n";
}

std::string memory_table(const MemoryReport& report, Communicator& world) {
  std::vector<int64_t> mine;
  append(mine, report.foretold);
  append(mine, report.measured);
  mine.push_back(static_cast<int64_t>(report.communication_buffers));
  std::vector<int64_t> all(mine.size() * world.size());
  world.all_gather({mine.data(), {static_cast<int64_t>(mine.size())}, DType::kI64},
                   {all.data(), {static_cast<int64_t>(all.size())}, DType::kI64});
  if (world.rank() != 0) return {};

  std::vector<std::vector<std::string>> columns(1);
  for (int c = 0; c < kCategoryCount; ++c) columns[0].emplace_back(name_of(static_cast<Category>(c)));
  for (const char* name : {"at peak", "peak in", "arena", "arena, foretold", "difference, bytes",
                           "host arena", "communicators"})
    columns[0].emplace_back(name);
  for (int r = 0; r < world.size(); ++r) columns.push_back(column(all.data() + r * kNumbers));

  std::string text = fmt::format("{:<20}", "memory, MiB");
  for (int r = 0; r < world.size(); ++r) text += fmt::format("{:>12}", fmt::format("rank {}", r));
  text += '\n';
  for (std::size_t line = 0; line < columns[0].size(); ++line) {
    text += fmt::format("{:<20}", columns[0][line]);
    for (std::size_t r = 1; r < columns.size(); ++r) text += fmt::format("{:>12}", columns[r][line]);
    text += '\n';
  }
  for (const auto& [name, sentence] : report.checkpointing) text += fmt::format("rank 0, {}: {}\n", name, sentence);
  return text;
}

void check_memory_limit(uint64_t limit, const MemoryLedger& foretold) {
  const uint64_t needed = foretold.arena_bytes();
  if (limit && needed > limit)
    throw Error(ExitCode::kDeviceMemory,
                fmt::format("the run needs {} bytes on this rank; device.memory_limit is {}", needed, limit),
                "`recollect estimate --compare` lists what activation checkpointing can do; or lower "
                "training.micro_batch_size, or use more tensor-parallel ranks");
}

}  // namespace recollect
