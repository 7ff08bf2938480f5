// What sections memory_report and profiling say, and whether they can be done.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/config/validate.h"

namespace recollect {

bool reports_in(const Config& config, ReportFormat format);
// Whether the terminal gets the tables.
bool shows_tables(const Config& config);
// `occasion`: "start", "end" or "step:N".
bool reports_at(const Config& config, const std::string& occasion);
// Whether some report is made when the profiled step is over, in a form that has its times.
bool shows_profiled_step(const Config& config);

// Leaves out of memory_report.at what is behind the last step.
void drop_late_occasions(Config& config);

void check_reports(const Config& config, std::vector<Finding>& found);

}  // namespace recollect
