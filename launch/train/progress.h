// What rank 0 says while it trains: lines of some steps and of all evaluations, on a terminal above a bar, and metrics: some
// for each step, among them a "loss", and some for each evaluation, among them an "eval_loss" and the task's own.
#pragma once

#include <chrono>
#include <cstdint>

#include "launch/train/fitted_line.h"
#include "launch/train/metrics.h"
#include "launch/train/progress_bar.h"
#include "launch/train/session.h"

namespace recollect {

// Steps between lines: logging.steps, or where that leaves it open about twenty lines a run, and more of a long one.
int64_t steps_between_lines(const Config& config);

class Progress {
 public:
  // `memory_bytes`: what the rank holds of the device. `steps_done`: of a run that is resumed.
  Progress(const Config& config, uint64_t memory_bytes, int64_t steps_done = 0);
  ~Progress();
  void report(const StepResult& result);
  void report(const EvaluationResult& result, int64_t steps_done);
  // Takes the bar away, so that what follows has its place. It comes again with a later step.
  void finish();
  // A run goes on behind this step again: what was said of later ones no longer counts.
  void go_back_to(int64_t step);
  // The run has done all that it was to do; trackers show it as finished.
  void complete() { metrics_.complete(); }
  // Until the metrics so far are on the disk. From any thread.
  void flush_metrics() const { metrics_.flush(); }

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(const StepResult& result);
  // Above the bar.
  void write(FittedLine& line);

  MetricsLog metrics_;
  int64_t total_steps_, every_;
  double every_epochs_;   // in place of every_ where it is not 0
  int64_t steps_before_;  // that this run has not made, or no longer counts
  ProgressBar bar_;
  Clock::time_point start_ = Clock::now();
  uint64_t memory_bytes_;
};

}  // namespace recollect
