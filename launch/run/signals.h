// Turns signals into a descriptor to poll. From the construction of this object to the end of the process the
// signals interrupt nothing; they wait in the descriptor. A signal that was ignored before (nohup, a shell's
// background job) stays ignored.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "engine/io/descriptor.h"

namespace recollect::launcher {

class Signals {
 public:
  Signals();

  int descriptor() const { return descriptor_.get(); }
  // The signals that have come since the last call, except SIGCHLD.
  std::vector<int> take();
  // The signals that were blocked before; started programs get this mask.
  const sigset_t& blocked_before() const { return blocked_before_; }

 private:
  sigset_t blocked_before_{};
  Descriptor descriptor_;
};

// Whether the signal asks a run to end: SIGTERM, SIGINT, SIGHUP, SIGQUIT. The ranks interpret all others.
bool asks_to_end(int signal);

// The name of a signal: "SIGTERM".
std::string signal_name(int signal);

}  // namespace recollect::launcher
