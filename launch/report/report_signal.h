// SIGUSR2 asks a run for its report, and never ends it. While an object of this class lives, the signal does
// no more than count; whoever trains looks at the count between two steps. It may be blocked before: then
// what has come by then counts too, and it is blocked again afterwards. The counter is the program's one
// mutable global, because a handler reaches nothing else: only the handler writes it, it only grows, and it
// needs no lock.
#pragma once

#include <csignal>
#include <cstdint>

namespace recollect {

class ReportSignal {
 public:
  ReportSignal();
  // The signal means again what it meant before; nothing, where it would end the process.
  ~ReportSignal();
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // For the first instructions of a run: lets the signal wait until there is an object of this class.
  static void hold();
  // How often it has come to this process since this object was made.
  uint32_t count() const;

 private:
  struct sigaction before_ {};
  sigset_t mask_before_{};
  uint32_t start_;
};

}  // namespace recollect
