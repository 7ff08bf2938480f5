// SIGUSR2 asks a run for its report. While an object of this class lives, the signal does no more than count;
// whoever trains looks at the count between two steps. The counter is the program's one mutable global,
// because a handler reaches nothing else: only the handler writes it, it only grows, and it needs no lock.
#pragma once

#include <csignal>
#include <cstdint>

namespace recollect {

class ReportSignal {
 public:
  ReportSignal();
  ~ReportSignal();  // the signal means again what it meant before
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // How often it has come to this process since this object was made.
  uint32_t count() const;

 private:
  struct sigaction before_ {};
  uint32_t start_;
};

}  // namespace recollect
