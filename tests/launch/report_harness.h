// Reports of runs in this process, to be looked at by tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/report/rank_report.h"
#include "launch/train/session.h"

namespace recollect::test {

// A model of six layers that trains in no time; two micro-batches a step.
extern const char* const kReportYaml;
// Words that make of it: as many tensor ranks, and what they do.
std::vector<std::string> checkpointed(int tensor, const std::string& mode, bool partition, bool host);

// What each rank of a run says at its end. `parts` may exchange parts of each rank's session.
std::vector<RankReport> reports_of_run(const std::vector<std::string>& words,
                                       const std::function<ProgramParts(int rank)>& parts = {});
// What rank 0 would say before the run.
RankReport predicted_report(const std::vector<std::string>& words);

}  // namespace recollect::test
