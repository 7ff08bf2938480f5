// The output of rank 0 during training: lines for some steps and all evaluations, a progress bar below them
// on a terminal, and metrics. Each step has metrics with a "loss", each evaluation metrics with an
// "eval_loss" and those of the task.
#pragma once

#include <chrono>
#include <cstdint>

#include "launch/train/fitted_line.h"
#include "launch/train/metrics.h"
#include "launch/train/progress_bar.h"
#include "launch/train/session.h"

namespace recollect {

// Steps between lines: logging.steps, or by default so that a run has about twenty lines, and a long one
// more.
int64_t steps_between_lines(const Config& config);

class Progress {
 public:
  // `memory_bytes` is the device memory of the rank. `steps_done` is not 0 in a resumed run.
  Progress(const Config& config, uint64_t memory_bytes, int64_t steps_done = 0);
  ~Progress();
  void report(const StepResult& result);
  void report(const EvaluationResult& result, int64_t steps_done);
  // Erases the bar, so that other output can use its line. The next step draws it again.
  void finish();
  // The run continues after this step again: metrics of later steps no longer count.
  void go_back_to(int64_t step);
  // The run has finished all its steps; trackers show it as finished.
  void complete() { metrics_.complete(); }
  // Waits until the metrics so far are on the disk. Any thread may call it.
  void flush_metrics() const { metrics_.flush(); }

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(const StepResult& result);
  // Writes a line above the bar.
  void write(FittedLine& line);

  MetricsLog metrics_;
  int64_t total_steps_, every_;
  double every_epochs_;   // if not 0, used instead of every_
  int64_t steps_before_;  // not made by this run, or undone
  ProgressBar bar_;
  Clock::time_point start_ = Clock::now();
  uint64_t memory_bytes_;
};

}  // namespace recollect
