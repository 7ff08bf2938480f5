// Trains the steps that a configuration asks for and times the ops of the last few of them: what `recollect profile` shows.
#pragma once

#include "launch/report/rank_report.h"
#include "launch/train/session.h"

namespace recollect {

// The rank's report at the end. Of up to so many steps that end with profiling.step it has the medians.
RankReport profile_session(const Config& config, Session& session, int64_t recorded);

}  // namespace recollect
