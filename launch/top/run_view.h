// The state of a run at one moment as seen from outside: from the files in its output folder, and from its
// processes if they are on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/report/live_rank.h"
#include "launch/report/run_stage.h"
#include "launch/report/training_curves.h"

namespace recollect {

// Seconds of a step: all of it, and those in which a rank waited for other ranks and for streams.
struct StepView {
  double all = 0, waiting = 0, exposed = 0;
};

struct RankView {
  int rank = 0;
  std::optional<LiveRank> live = {};  // while it trains
  uint64_t resident = 0;              // of its process; 0 if unknown
  std::optional<StepView> step = {};  // of the latest steps while it trains, else from the report
  uint64_t peak = 0;                  // of the device's memory, from the report; 0 if unknown
};

struct RunView {
  std::string name = {}, model = {}, layout = {};  // empty if there is no report yet
  RunStage state = RunStage::kNone;
  std::string failure = {};
  int64_t now = 0;  // seconds since 1970
  int64_t step = 0, max_steps = 0;
  std::vector<RankView> ranks = {};
  const TrainingCurves* curves = nullptr;
};

// Reads the state of one run repeatedly. Files that do not change are read once.
class RunWatcher {
 public:
  explicit RunWatcher(const std::string& folder) : folder_(folder), metrics_(folder) {}
  // The result is valid until the next call.
  const RunView& look();

 private:
  void read_reports();
  void read_ranks();

  const std::string folder_;
  MetricsFile metrics_;
  RunView view_;
  bool has_ended_ = false;  // when the reports were read
};

}  // namespace recollect
