// Remembers the best evaluation so far and decides on early stopping, as Transformers' Trainer and its
// EarlyStoppingCallback do. Any improvement makes an evaluation the best; only an improvement by more than
// the threshold resets the patience. A metric that is not finite is never better.
#pragma once

#include <cstdint>

#include "launch/config/config.h"
#include "launch/train/evaluation.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

// The metric `name` (of kComparedMetrics) in a result that has it.
double metric_value(const EvaluationResult& result, std::string_view name);

class BestSoFar {
 public:
  // Compares nothing if the run does not need it (Config::compares_evaluations).
  explicit BestSoFar(const Config& config);

  // Takes the state of an earlier attempt. A state with another metric is ignored.
  void restore(const BestEvaluation& before);
  // Takes the compared metric of the next evaluation. Returns whether it is the best one.
  bool look(double value, int64_t step);

  bool judges() const { return judges_; }
  // Empty before the first evaluation, and if nothing is compared.
  const BestEvaluation& state() const { return state_; }
  // Whether the last evaluation.early_stopping_patience evaluations were not better.
  bool patience_is_over() const { return patience_ > 0 && state_.not_better >= patience_; }

 private:
  bool judges_, more_is_better_;
  std::string metric_;
  int64_t patience_;
  double threshold_;
  BestEvaluation state_;
};

}  // namespace recollect
