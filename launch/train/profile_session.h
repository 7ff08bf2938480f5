// Trains the steps of a configuration and times the ops of the last ones, for `recollect profile`.
#pragma once

#include "launch/report/rank_report.h"
#include "launch/train/session.h"

namespace recollect {

// Returns the rank's report at the end. It has the medians of up to `recorded` steps, the last of which is
// profiling.step.
RankReport profile_session(const Config& config, Session& session, int64_t recorded);

}  // namespace recollect
