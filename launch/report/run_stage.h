// Whether the run that writes to a folder goes on, from what lies there: for whoever looks on from outside.
#pragma once

#include <string>

namespace recollect {

enum class RunStage {
  kNone,    // no run of ours has written there
  kGoesOn,  // its process is alive; of one on another host, nothing says that it is not
  kWaits,   // its process is gone, and its launcher may start it again
  kDied,    // its process is gone before the run had ended
  kEnded,
};

RunStage stage_of_run(const std::string& folder);

// Where a rank has failed: "rank 1: ...", of the lowest of them; "" where none has.
std::string failure_in(const std::string& folder);

}  // namespace recollect
