// SIGUSR2 requests a report from a run and never ends it. While an object of this class lives, the signal
// only increments a counter, which the training reads between two steps. If the signal was blocked before,
// one that already came counts too, and it is blocked again afterwards. The counter is the program's only
// mutable global, because a handler can access nothing else. Only the handler writes it, it only grows, and
// it needs no lock.
#pragma once

#include <csignal>
#include <cstdint>

namespace recollect {

class ReportSignal {
 public:
  ReportSignal();
  // Restores the former handling of the signal; if that would end the process, the signal is ignored.
  ~ReportSignal();
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // Blocks the signal at the start of a run until an object of this class exists.
  static void hold();
  // The number of signals to this process since the construction of this object.
  uint32_t count() const;

 private:
  struct sigaction before_ {};
  sigset_t mask_before_{};
  uint32_t start_;
};

}  // namespace recollect
