#include "launch/train/best_evaluation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace recollect {

namespace {

bool more_is_better(std::string_view name) {
  const auto found = std::find_if(kComparedMetrics.begin(), kComparedMetrics.end(),
                                  [&](const ComparedMetric& metric) { return metric.name == name; });
  require(found != kComparedMetrics.end(), "a metric that nothing is compared by");
  return found->more_is_better;
}

}  // namespace

double metric_value(const EvaluationResult& result, std::string_view name) {
  if (name == "loss") return result.loss;
  for (const MetricValue& metric : result.metrics)
    if (metric.name == name || metric.name == fmt::format("eval_{}", name)) return metric.value;
  throw Error(ExitCode::kInternal, fmt::format("an evaluation without {}", name));
}

BestSoFar::BestSoFar(const Config& config)
    : judges_(config.compares_evaluations()),
      more_is_better_(more_is_better(config.evaluation.metric_for_best_model)),
      metric_(config.evaluation.metric_for_best_model),
      patience_(judges_ ? config.evaluation.early_stopping_patience : 0),
      threshold_(config.evaluation.early_stopping_threshold) {}

void BestSoFar::restore(const BestEvaluation& before) {
  if (judges_ && before.metric == metric_) state_ = before;
}

bool BestSoFar::look(double value, int64_t step) {
  if (!judges_) return false;
  const bool first = state_.step == 0, finite = std::isfinite(value);
  const double gain = more_is_better_ ? value - state_.value : state_.value - value;
  const bool better = finite && (first || gain > 0);
  state_.metric = metric_;
  state_.not_better = better && (first || gain > threshold_) ? 0 : state_.not_better + 1;
  if (better) {
    state_.step = step;
    state_.value = value;
  }
  return better;
}

}  // namespace recollect
