// Writes the reports of a run to the terminal and the output folder, when they are due.
#pragma once

#include "comm/communicator.h"
#include "launch/report/run_folder.h"

namespace recollect {

// Collective. The report of all ranks at a time of memory_report.at.
void report_together(const Config& config, const RankReport& report, Communicator& world, ReportFiles& files);

// Not collective, because SIGUSR2 reaches ranks at different times, or only one rank.
void report_alone(const Config& config, const RankReport& report, ReportFiles& files);

}  // namespace recollect
