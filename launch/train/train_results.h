// The final results of a training run, with the names of Hugging Face's Trainer: means over the steps of this
// run, timed from the first step to the last including evaluations between them; and the results of the last
// evaluation.
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
  double epoch = 0;     // after the last step, including earlier attempts; 0: endless data
  double seconds = 0;
  uint64_t device_memory_peak = 0;  // bytes in use on the rank with the most
  uint64_t device_memory_predicted = 0;
  uint64_t device_memory_reserved =
      0;  // the arena, also for programs that have not run, such as other lengths
  uint64_t resident_memory_peak = 0;  // of the largest process; 0: unknown
  std::optional<EvaluationResult> evaluated = {};
  std::optional<SnapshotTotals> snapshots = {};
  BestEvaluation best = {};
  std::string best_folder = {};  // of the best model; "": none is saved
  bool stopped_early = false;
  SlowRanks slow = {};
  StartTimes start = {};  // of this rank, like the two below
  double first_step = 0;  // seconds
  double step_median = 0;
  std::optional<StepReport> step = {};  // if the run has reported at its end
  std::string report = {};              // where to find more; "": nowhere

  void add(const StepResult& result, int64_t samples_of_step);
};

// Collective. Adds the peaks of memory, each of the rank with the most, and the slow ranks.
void add_ranks(const Session& session, TrainResults& results);

// At most seven lines; nine with those on the saved model and on an early end. `results` must have steps.
std::string results_text(const TrainResults& results);
std::string results_json(const TrainResults& results);

}  // namespace recollect
