#include "launch/report/memory_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace recollect {

namespace {

// One rank's report as numbers, to travel in one collective.
constexpr int kLedgerNumbers = kPhaseCount * kCategoryCount + 4;
constexpr int kNumbers = 2 * kLedgerNumbers + 1;

void append(std::vector<int64_t>& numbers, const MemoryLedger& ledger) {
  for (const auto& row : ledger.at_peak)
    for (uint64_t bytes : row) numbers.push_back(static_cast<int64_t>(bytes));
  numbers.push_back(static_cast<int64_t>(ledger.persistent_bytes));
  numbers.push_back(static_cast<int64_t>(ledger.transient_bytes));
  numbers.push_back(static_cast<int64_t>(ledger.host_bytes));
  numbers.push_back(static_cast<int64_t>(ledger.disk_bytes));
}

template <typename Bytes>
std::string mib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
}

// A rank's column: the categories at that rank's highest phase, their sum, the arena, and what was foretold
// of it.
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
  cells.push_back(mib(measured[kLedgerNumbers - 2]));
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
  json["disk"] = ledger.disk_bytes;
  json["pool"] = {{"bytes", ledger.pooled_bytes}, {"in_use_at_peak", ledger.pooled_peak}};
  return json;
}

std::string phase_table(const std::string& title, const MemoryLedger& foretold,
                        const MemoryLedger* measured) {
  std::vector<std::pair<std::string, const MemoryLedger*>> ledgers{{"foretold", &foretold}};
  if (measured) ledgers.emplace_back("measured", measured);
  const auto row = [&](std::string_view name, const auto& cell) {
    std::string line = fmt::format("{:<20}", name);
    for (int p = 0; p < kPhaseCount; ++p)
      for (const auto& [which, ledger] : ledgers) line += fmt::format("{:>12}", cell(*ledger, p));
    return line + "\n";
  };
  std::string text = fmt::format("{:<20}", title);
  for (int p = 0; p < kPhaseCount; ++p)
    text += fmt::format("{:>{}}", name_of(static_cast<Phase>(p)), 12 * ledgers.size());
  text += '\n';
  if (measured)
    text += row("", [&](const MemoryLedger& l, int) { return &l == measured ? "measured" : "foretold"; });
  for (int c = 0; c < kCategoryCount; ++c)
    text += row(name_of(static_cast<Category>(c)),
                [c](const MemoryLedger& l, int p) { return mib(l.at_peak[p][c]); });
  text += row("at peak", [](const MemoryLedger& l, int p) { return mib(MemoryLedger::sum(l.at_peak[p])); });
  for (int p = 0; p < kPhaseCount; ++p)
    if (!foretold.peak_op[p].empty())
      text += fmt::format("  peak of {} in {}\n", name_of(static_cast<Phase>(p)), foretold.peak_op[p]);
  for (const auto& [which, ledger] : ledgers) {
    const std::string suffix = measured ? ", " + which : "";
    const uint64_t arena = ledger->arena_bytes();
    text += fmt::format("{:<20}{:>12}   ({} bytes; {} unused at the peak)\n", "device" + suffix, mib(arena),
                        arena, arena - ledger->peak());
    text += fmt::format("{:<20}{:>12}\n", "host" + suffix, mib(ledger->host_bytes));
    if (ledger->disk_bytes > 0)
      text += fmt::format("{:<20}{:>12}\n", "disk" + suffix, mib(ledger->disk_bytes));
  }
  return text;
}

std::string rank_text(const MemoryReport& report) {
  std::string text = phase_table(fmt::format("rank {}, MiB", report.rank), report.foretold, &report.measured);
  for (const auto& [name, sentence] : report.checkpointing)
    text += fmt::format("rank {}, {}: {}\n", report.rank, name, sentence);
  return text + step_text(report.step);
}

std::string memory_json(const MemoryReport& report) {
  nlohmann::ordered_json json;
  json["rank"] = report.rank;
  json["unit"] = "bytes";
  json["foretold"] = ledger_json(report.foretold);
  json["measured"] = ledger_json(report.measured);
  json["communication_buffers"] = report.communication_buffers;
  for (const auto& [name, text] : report.checkpointing) json["activation_checkpointing"][name] = text;
  if (report.step.steps > 0) json["step"] = step_json(report.step);
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
                           "host arena", "disk", "communicators"})
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
  return text;
}

void check_limits(const Config& config, const MemoryLedger& foretold) {
  const auto over = [](uint64_t needed, int64_t limit) {
    return limit > 0 && needed > static_cast<uint64_t>(limit);
  };
  if (over(foretold.arena_bytes(), config.device.memory_limit))
    throw Error(ExitCode::kDeviceMemory,
                fmt::format("the run needs {} bytes on this rank; device.memory_limit is {}",
                            foretold.arena_bytes(), config.device.memory_limit),
                "`recollect estimate --compare` lists what activation checkpointing can do; or lower "
                "training.micro_batch_size, or use more tensor-parallel ranks");
  const Config::ActivationCheckpointing::Disk& disk = config.activation_checkpointing.disk_checkpointing;
  if (over(foretold.disk_bytes, disk.limit))
    throw Error(ExitCode::kStorage,
                fmt::format("the run needs {} bytes of disk on this rank; "
                            "activation_checkpointing.disk_checkpointing.limit is {}",
                            foretold.disk_bytes, disk.limit),
                "raise the limit, or keep less: another mode, a larger keep_last, storage_dtype: bf16");
}

}  // namespace recollect
