// What a run leaves in its output folder, written and read: memory.rankN.json and trace.rankN.json of every
// rank, and report.html of all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "launch/report/rank_report.h"

namespace recollect {

// The reports of all ranks of the run in that folder, by rank. Error kInput, naming the file, where one is
// missing, damaged or of another run.
std::vector<RankReport> read_run(const std::string& folder);

// Collective. The reports of all ranks on rank 0, in rank order; empty elsewhere. Timelines come along only
// of those ranks that a page shows.
std::vector<RankReport> gather_reports(const RankReport& mine, Communicator& world);

// Writes files that are worth less than the training: one that cannot be written is complained of, once.
class ReportFiles {
 public:
  explicit ReportFiles(const Config& config) : config_(config) {}
  void write(const std::string& path, const std::string& text);
  // Collective. Brings the files that the configuration asks for up to date with this report.
  void write_run(const RankReport& report, Communicator& world);
  // The part of it that is not: this rank's own JSON.
  void write_rank(const RankReport& report);

 private:
  void write_own(const char* what, int rank, const std::string& text);
  void attempt(const std::function<void()>& writing);

  const Config& config_;
  bool complained_ = false;
};

}  // namespace recollect
