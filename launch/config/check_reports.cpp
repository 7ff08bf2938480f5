#include "launch/config/check_reports.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace recollect {

namespace {

// N of "step:N"; none for anything else.
std::optional<int64_t> step_of(std::string_view occasion) {
  constexpr std::string_view kPrefix = "step:";
  if (!occasion.starts_with(kPrefix)) return {};
  const std::string_view digits = occasion.substr(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && digits.front() != '0';
  return whole ? std::optional(step) : std::nullopt;
}

constexpr std::size_t kMostOccasions = 1000;  // each is looked for after every step

void check_once(const char* key, const std::vector<std::string>& entries, std::vector<Finding>& found) {
  for (auto entry = entries.begin(); entry != entries.end(); ++entry)
    if (std::find(entries.begin(), entry, *entry) != entry)
      found.push_back({{key}, fmt::format("{}: '{}' stands there twice", key, *entry)});
}

}  // namespace

bool reports_in(const Config& config, ReportFormat format) {
  const auto& formats = config.memory_report.formats;
  return std::find(formats.begin(), formats.end(), name_of(format)) != formats.end();
}

bool shows_tables(const Config& config) {
  return config.logging.verbose || reports_in(config, ReportFormat::kTable);
}

bool reports_at(const Config& config, const std::string& occasion) {
  const auto& at = config.memory_report.at;
  return std::find(at.begin(), at.end(), occasion) != at.end();
}

bool shows_profiled_step(const Config& config) {
  const auto& at = config.memory_report.at;
  const bool late_enough = std::any_of(at.begin(), at.end(), [&](const std::string& occasion) {
    return occasion == "end" || step_of(occasion).value_or(0) >= config.profiling.step;
  });
  return late_enough && (reports_in(config, ReportFormat::kJson) || reports_in(config, ReportFormat::kHtml) ||
                         reports_in(config, ReportFormat::kTrace));
}

void drop_late_occasions(Config& config) {
  std::erase_if(config.memory_report.at, [&](const std::string& occasion) {
    return step_of(occasion).value_or(0) > config.training.max_steps;
  });
}

void check_reports(const Config& config, std::vector<Finding>& found) {
  const Config::MemoryReport& m = config.memory_report;
  const int64_t steps = config.training.max_steps;
  if (m.at.size() > kMostOccasions) {
    found.push_back(
        {{"memory_report.at"},
         fmt::format("memory_report.at names {} occasions; it may name {}", m.at.size(), kMostOccasions)});
    return;
  }
  for (const std::string& occasion : m.at) {
    if (occasion == "start" || occasion == "end") continue;
    const std::optional<int64_t> step = step_of(occasion);
    if (!step)
      found.push_back({{"memory_report.at"},
                       fmt::format("memory_report.at: '{}' is none of start, end, step:N", occasion)});
    else if (*step > steps)
      found.push_back(
          {{"memory_report.at", "training.max_steps"},
           fmt::format("memory_report.at: {} is after the last step, training.max_steps {}", occasion, steps),
           true});
  }
  check_once("memory_report.at", m.at, found);
  check_once("memory_report.formats", m.formats, found);
  if (config.profiling.step > steps)
    found.push_back({{"profiling.step", "training.max_steps"},
                     fmt::format("profiling.step {} is after the last step, training.max_steps {}",
                                 config.profiling.step, steps),
                     true});
}

}  // namespace recollect
