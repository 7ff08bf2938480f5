// How ranks ended, which end caused the others, and the text of the failure report.
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

// The root cause among the ranks that failed without being told to end: the first that did not only lose a
// peer (exit code 9), or else the first. Null if none failed. `ends` are in the order in which they were
// seen.
const RankEnd* root_cause(std::span<const RankEnd> ends);

// The failure report: the root cause, with its last lines on stderr if they were not shown, then the other
// ranks that failed, by themselves or after they were told to end.
std::string failure_box(const RankEnd& root, std::span<const RankEnd> ends, const Relay& output,
                        const Relay& errors);

}  // namespace recollect::launcher
