// Tells from the files in an output folder whether its run continues. It is for programs outside of the run.
#pragma once

#include <string>

namespace recollect {

enum class RunStage {
  kNone,    // no run has written there
  kGoesOn,  // its process is alive, or is on another host without a sign of its end
  kWaits,   // its process is gone, and its launcher may restart it
  kDied,    // its process is gone before the run had ended
  kEnded,
};

RunStage stage_of_run(const std::string& folder);

// The failure of the lowest failed rank, "rank 1: ..."; "" if no rank failed.
std::string failure_in(const std::string& folder);

}  // namespace recollect
