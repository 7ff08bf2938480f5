// Writes and reads the report files in the output folder of a run: memory.rankN.json and trace.rankN.json of
// every rank, and report.html of all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "launch/report/rank_report.h"

namespace recollect {

// The reports of all ranks of the run in this folder, in rank order. Throws kInput, naming the file, if one
// is missing, damaged or from another run.
std::vector<RankReport> read_run(const std::string& folder);

// Collective. Returns the reports of all ranks on rank 0, in rank order, and nothing on other ranks. Only the
// ranks that a page shows send their timelines.
std::vector<RankReport> gather_reports(const RankReport& mine, Communicator& world);

// Writes files that matter less than the training: if one cannot be written, it warns once.
class ReportFiles {
 public:
  explicit ReportFiles(const Config& config) : config_(config) {}
  void write(const std::string& path, const std::string& text);
  // Collective. Updates the files that the configuration selects with this report.
  void write_run(const RankReport& report, Communicator& world);
  // Not collective. Writes only this rank's JSON.
  void write_rank(const RankReport& report);

 private:
  void write_own(const char* what, int rank, const std::string& text);
  void attempt(const std::function<void()>& writing);

  const Config& config_;
  bool complained_ = false;
};

}  // namespace recollect
