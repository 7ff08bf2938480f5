// The occasions on which a run reports, and where its reports go: the terminal and the output folder.
#pragma once

#include "comm/communicator.h"
#include "launch/report/run_folder.h"

namespace recollect {

// Collective. What all ranks report together on an occasion of memory_report.at.
void report_together(const Config& config, const RankReport& report, Communicator& world, ReportFiles& files);

// Not collective: SIGUSR2 comes to one rank earlier than to another, or to one alone.
void report_alone(const Config& config, const RankReport& report, ReportFiles& files);

}  // namespace recollect
