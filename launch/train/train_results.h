// What a training run comes to, in the names that Hugging Face's Trainer closes with: means over the steps of
// this run, by the clock from the first step to the last, evaluations between them included; and what the last
// evaluation said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "launch/report/step_report.h"
#include "launch/train/session.h"
#include "launch/train/slow_ranks.h"
#include "launch/train/snapshots.h"

namespace recollect {

struct TrainResults {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  double loss_sum = 0;  // over the steps
  double epoch = 0;     // behind the last one, of all runs that it goes on from; 0: the data never ends
  double seconds = 0;
  uint64_t device_memory_peak = 0;  // bytes in use on the rank that uses most
  uint64_t device_memory_predicted = 0;
  uint64_t device_memory_reserved =
      0;  // the arena: also for programs that have not run, such as those of other lengths
  uint64_t resident_memory_peak = 0;  // of the largest process; 0: the system does not say
  std::optional<EvaluationResult> evaluated = {};
  std::optional<SnapshotTotals> snapshots = {};
  BestEvaluation best = {};
  std::string best_folder = {};  // of its model; "": none is saved
  bool stopped_early = false;
  SlowRanks slow = {};
  StartTimes start = {};  // of this rank, as the two below
  double first_step = 0;  // seconds
  double step_median = 0;
  std::optional<StepReport> step = {};  // where the run has reported at its end
  std::string report = {};              // what shows more; "": nothing does

  void add(const StepResult& result, int64_t samples_of_step);
};

// Collective: the peaks of memory, each that of the fullest rank, and the ranks that were slow.
void add_ranks(const Session& session, TrainResults& results);

// Seven lines at most: with those on the saved model and on the end before the last step they are nine. `results` has steps.
std::string results_text(const TrainResults& results);
std::string results_json(const TrainResults& results);

}  // namespace recollect
