#include "launch/report/report_command.h"

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/printable.h"
#include "engine/io/files.h"
#include "engine/io/output_file.h"
#include "engine/io/standard_output.h"
#include "launch/report/chrome_trace.h"
#include "launch/report/compare.h"
#include "launch/report/follow_run.h"
#include "launch/report/html_page.h"
#include "launch/report/memory_table.h"
#include "launch/report/rank_report_json.h"
#include "launch/report/run_folder.h"

namespace recollect {

namespace {

using Run = std::vector<RankReport>;

std::string run_text(const Run& run) {
  const RankReport& shown = fullest(run);
  std::string text = fmt::format("{}; {}\nbatch: {}\n", shown.run.model, shown.run.layout, shown.run.batch);
  std::vector<RankMemory> ranks;
  for (const RankReport& report : run) ranks.push_back(memory_of(report));
  return text + ranks_table(ranks) + rank_text(shown);
}

std::string runs_json(const std::vector<Run>& runs) {
  nlohmann::ordered_json document;
  for (const Run& run : runs) {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const RankReport& report : run) ranks.push_back(summary_json(report));
    document["runs"].push_back({{"ranks", std::move(ranks)}});
  }
  if (runs.size() == 2) document["difference"] = comparison_json(runs[0], runs[1]);
  return document.dump(2) + "\n";
}

// The trace with the measured and predicted times of all ranks that have a timeline.
std::string trace_text(const Run& run) {
  ChromeTrace trace;
  for (const RankReport& report : run) {
    trace.add(report, ChromeTrace::Times::kMeasured);
    trace.add(report, ChromeTrace::Times::kPredicted);
  }
  return trace.text();
}

// The curves of each run. Warns if a file has invalid lines.
std::vector<TrainingCurves> curves_of(const Words& folders) {
  std::vector<TrainingCurves> curves;
  for (const std::string& folder : folders) {
    curves.push_back(read_curves(folder));
    if (const int64_t lines = curves.back().lines_left_out(); lines > 0)
      warn("{}/metrics.jsonl: left out, since they are none of a step's: {} lines", printable(folder), lines);
  }
  return curves;
}

struct ReportWords {
  std::string html, trace;
  bool json = false, follow = false;

  OptionTable options();
};

OptionTable ReportWords::options() {
  namespace po = boost::program_options;
  OptionTable table;
  table.add_options()("html", po::value(&html)->value_name("FILE"),
                      "the page of the run, or of both on one scale")(
      "follow", po::bool_switch(&follow), "writes the page, RUN_FOLDER/report.html, while the run goes on")(
      "trace", po::value(&trace)->value_name("FILE"),
      "the recorded step of all ranks, measured and predicted, for Perfetto")(
      "json", po::bool_switch(&json), "the numbers as JSON, and the differences of two runs");
  return table;
}

}  // namespace

void check_report_files(const std::string& html, const std::string& trace) {
  check_output_files({{"--html", html, "a page of recollect", kPageMark},
                      {"--trace", trace, "a trace of recollect", ChromeTrace::kMark}});
}

OptionTable report_options() { return ReportWords().options(); }

void report_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  ReportWords given;
  const Words folders = parse_options(words, given.options());
  const auto& [html, trace, json, follow] = given;
  if (folders.empty() || folders.size() > 2)
    throw UsageError("report needs the output folder of a run, or of two to compare");
  if (!trace.empty() && folders.size() == 2)
    throw Error(ExitCode::kConfiguration, "--trace is of one run", "ask for each of the two by itself");
  if (follow && (folders.size() == 2 || json || !trace.empty()))
    throw Error(ExitCode::kConfiguration, "--follow writes the page of one run and nothing else",
                "ask for the rest when the run has ended");
  const std::string followed = html.empty() ? folders.front() + "/report.html" : html;
  check_report_files(follow ? followed : html, trace);
  if (follow) return follow_run(folders.front(), followed);
  std::vector<Run> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  const bool compares = folders.size() == 2 && !json;
  const std::vector<TrainingCurves> curves =
      compares || !html.empty() ? curves_of(folders) : std::vector<TrainingCurves>();
  if (!html.empty()) write_text_file(html, html_page(runs, {.curves = curves}));
  if (!trace.empty()) write_text_file(trace, trace_text(runs.front()));
  if (json) {
    fmt::print("{}", runs_json(runs));
    return;
  }
  fmt::print("{}", runs.size() == 2 ? comparison_text(runs[0], runs[1], curves) : run_text(runs[0]));
  for (const std::string& file : {html, trace})
    if (!file.empty()) fmt::print("wrote {}\n", printable(file));
}

}  // namespace recollect
