// What rank 0 says while it trains: a bar on a terminal, plain lines elsewhere, and metrics: some for each
// step, among them a "loss", and some for each evaluation, among them an "eval_loss" and the task's own.
#pragma once

#include <cstdint>

#include "launch/train/metrics.h"
#include "launch/train/session.h"

namespace recollect {

class Progress {
 public:
  // `memory_bytes`: what the rank holds of the device. `steps_done`: of a run that is resumed.
  Progress(const Config& config, uint64_t memory_bytes, int64_t steps_done = 0);
  ~Progress();
  void report(const StepResult& result);
  void report(const EvaluationResult& result, int64_t steps_done);
  // Ends the bar, so that what follows starts on a fresh line.
  void finish();
  // A run goes on behind this step again: what was said of later ones no longer counts.
  void go_back_to(int64_t step) { metrics_.go_back_to(step); }
  // Until the metrics so far are on the disk. From any thread.
  void flush_metrics() const { metrics_.flush(); }

 private:
  void draw_bar(const StepResult& result);

  const Config& config_;
  MetricsLog metrics_;
  int64_t total_steps_, every_;
  bool bar_, drawn_ = false;
  uint64_t memory_bytes_;
};

}  // namespace recollect
