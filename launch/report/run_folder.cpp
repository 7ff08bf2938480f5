#include "launch/report/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/io/files.h"
#include "engine/io/input_file.h"
#include "engine/io/standard_output.h"
#include "launch/config/check_reports.h"
#include "launch/report/chrome_trace.h"
#include "launch/report/html_page.h"
#include "launch/report/rank_report_json.h"

namespace recollect {

namespace {

std::string rank_file(const std::string& folder, const char* what, int rank) {
  return fmt::format("{}/{}.rank{}.json", folder, what, rank);
}

RankReport read_rank(const std::string& folder, int rank) {
  const std::string path = rank_file(folder, "memory", rank);
  if (!std::filesystem::exists(path))
    throw Error(ExitCode::kInput, "there is no " + path,
                rank == 0
                    ? "name the output folder of a run; one whose memory_report.formats has json"
                    : "a rank of the run has not written its report, or its file was not brought along");
  RankReport report = read_rank_report(InputFile(path).text(), path);
  if (report.rank != rank)
    throw Error(ExitCode::kInput, fmt::format("{} is of rank {}", path, report.rank),
                "the file was renamed, or written by another run");
  return report;
}

// If a node does not share rank 0's folder, its ranks write their files to a local folder of the same name.
void make_own_folder(const Config& config, int rank) {
  if (rank == 0) return;
  std::error_code error;
  std::filesystem::create_directories(config.output_dir, error);
  if (error)
    throw Error(ExitCode::kStorage,
                fmt::format("cannot make the folder {}: {}", config.output_dir, error.message()));
}

}  // namespace

std::vector<RankReport> read_run(const std::string& folder) {
  std::vector<RankReport> reports{read_rank(folder, 0)};
  const int ranks = reports.front().ranks;
  for (int rank = 1; rank < ranks; ++rank) {
    reports.push_back(read_rank(folder, rank));
    if (reports.back().ranks != ranks || reports.back().run.model != reports.front().run.model)
      throw Error(ExitCode::kInput, rank_file(folder, "memory", rank) + " is of another run than rank 0's",
                  "the folder holds files of two runs");
  }
  return reports;
}

std::vector<RankReport> gather_reports(const RankReport& mine, Communicator& world) {
  std::vector<RankReport> reports;
  for (int rank = 0; rank < world.size(); ++rank) {
    std::string text;
    if (rank == world.rank() && rank > 0) text = rank_report_text(mine, rank < kTimelinesInPage);
    if (rank > 0) text = broadcast_text(std::move(text), rank, world);
    if (world.rank() != 0) continue;
    reports.push_back(rank == 0 ? mine : read_rank_report(text, fmt::format("the report of rank {}", rank)));
  }
  return reports;
}

void ReportFiles::write(const std::string& path, const std::string& text) {
  attempt([&] { write_text_file(path, text); });
}

void ReportFiles::write_own(const char* what, int rank, const std::string& text) {
  attempt([&] {
    make_own_folder(config_, rank);
    write_text_file(rank_file(config_.output_dir, what, rank), text);
  });
}

void ReportFiles::attempt(const std::function<void()>& writing) {
  try {
    writing();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kStorage) throw;
    if (!std::exchange(complained_, true)) warn("a report is missing: {}", error.what());
  }
}

void ReportFiles::write_rank(const RankReport& report) {
  if (reports_in(config_, ReportFormat::kJson)) write_own("memory", report.rank, rank_report_text(report));
}

void ReportFiles::write_run(const RankReport& report, Communicator& world) {
  write_rank(report);
  if (reports_in(config_, ReportFormat::kTrace) && report.timeline.measured) {
    ChromeTrace trace;
    trace.add(report, ChromeTrace::Times::kMeasured);
    write_own("trace", report.rank, trace.text());
  }
  if (!reports_in(config_, ReportFormat::kHtml)) return;
  const std::vector<std::vector<RankReport>> run{gather_reports(report, world)};
  if (world.rank() != 0) return;
  const std::vector<std::string>& forms = config_.logging.report_to;
  const bool has_metrics = std::find(forms.begin(), forms.end(), "jsonl") != forms.end();
  const std::vector<TrainingCurves> curves{has_metrics ? read_curves(config_.output_dir) : TrainingCurves()};
  write(config_.output_dir + "/report.html", html_page(run, {.curves = curves}));
}

}  // namespace recollect
