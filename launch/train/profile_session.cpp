#include "launch/train/profile_session.h"

#include <algorithm>

namespace recollect {

RankReport profile_session(const Config& config, Session& session, int64_t recorded) {
  const int64_t first = std::max<int64_t>(1, config.profiling.step - recorded + 1);
  session.record_from(first);
  std::vector<StepTimeline> steps;
  double not_timed = 0;
  for (int64_t step = 1; step <= config.training.max_steps; ++step) {
    if (step == first) not_timed = session.measurements().times.median();
    session.step();
    const StepRecorder* const recorder = session.programs().recorder();
    if (recorder && recorder->complete() && recorder->step() == step) steps.push_back(recorder->timeline());
  }
  RankReport report = report_of(config, session.measurements());
  Timeline& timeline = report.timeline;
  if (!timeline.measured || steps.empty()) return report;
  std::vector<StreamId> streams;
  for (const Timeline::Op& op : timeline.ops) streams.push_back(op.stream);
  timeline.measured = median_of(steps, streams);
  timeline.recorded = static_cast<int64_t>(steps.size());
  if (config.device.backend == BackendKind::kCuda) timeline.not_timed = not_timed;
  return report;
}

}  // namespace recollect
