// How ranks ended, which end was the cause of the others, and what to tell about it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>
#include <string>

#include "launch/run/relay.h"

namespace recollect::launcher {

struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  int wait_status = 0;
  std::chrono::system_clock::time_point time;
  bool asked = false;  // the launcher had told it to end

  // The exit code, or 128 + signal.
  int status() const;
  bool by_signal() const;
  std::string text() const;  // "exit code 7", "SIGKILL (signal 9)"
};

// Of those that failed with nobody asking: the first that did not merely lose a peer (exit code 9), else the
// first. `ends` are in the order in which they were seen; null where none failed.
const RankEnd* root_cause(std::span<const RankEnd> ends);

// The cause, with the last lines it wrote where nobody has seen them, then the others that failed, by themselves or when
// they were told to end.
std::string failure_box(const RankEnd& root, std::span<const RankEnd> ends, const Relay& output,
                        const Relay& errors);

}  // namespace recollect::launcher
