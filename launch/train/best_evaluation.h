// Which evaluation was the best so far, and whether the run has patience for more, as Transformers' Trainer and its
// EarlyStoppingCallback judge: what is better at all is the best from then on; patience begins anew only where it is
// better by more than the threshold. A metric that is not finite is never better.
#pragma once

#include <cstdint>

#include "launch/config/config.h"
#include "launch/train/evaluation.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

// The number of that name (kComparedMetrics) in a result that has it.
double metric_value(const EvaluationResult& result, std::string_view name);

class BestSoFar {
 public:
  // Judges nothing where nothing depends on it (Config::compares_evaluations).
  explicit BestSoFar(const Config& config);

  // Of an earlier attempt. One that was judged by another metric says nothing of this one's.
  void restore(const BestEvaluation& before);
  // The next evaluation, by the number that it is judged by. Returns whether it is the best one.
  bool look(double value, int64_t step);

  bool judges() const { return judges_; }
  // "": before the first one, and where nothing is judged.
  const BestEvaluation& state() const { return state_; }
  // As many evaluations as evaluation.early_stopping_patience were not better.
  bool patience_is_over() const { return patience_ > 0 && state_.not_better >= patience_; }

 private:
  bool judges_, more_is_better_;
  std::string metric_;
  int64_t patience_;
  double threshold_;
  BestEvaluation state_;
};

}  // namespace recollect
