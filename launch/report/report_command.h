// `recollect report`: shows again what a run has left in its output folder, or two runs beside each other.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable report_options();
// Error kInput where the folder does not hold a whole run.
void report_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

// Error kConfiguration where a command may not write its page or its trace to these ("": none).
void check_report_files(const std::string& html, const std::string& trace);

}  // namespace recollect
