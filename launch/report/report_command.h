// The command `recollect report`: shows the reports in the output folder of a run, or compares two runs.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable report_options();
// Throws kInput if the folder does not hold a complete run.
void report_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

// Throws kConfiguration if a command may not write its page or its trace to these files ("": none).
void check_report_files(const std::string& html, const std::string& trace);

}  // namespace recollect
