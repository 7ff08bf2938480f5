// Signals as something to poll for. From the making of this object to the end of the process they interrupt
// nothing: they wait in a descriptor. A signal that was ignored before (nohup, a shell's background job)
// stays ignored.
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
  // Those that have come since the last call, but for SIGCHLD.
  std::vector<int> take();
  // What was blocked before: for the programs that are started.
  const sigset_t& blocked_before() const { return blocked_before_; }

 private:
  sigset_t blocked_before_{};
  Descriptor descriptor_;
};

// Whether it asks a run to end: SIGTERM, SIGINT, SIGHUP, SIGQUIT. Others are for the ranks to understand.
bool asks_to_end(int signal);

// "SIGTERM".
std::string signal_name(int signal);

}  // namespace recollect::launcher
