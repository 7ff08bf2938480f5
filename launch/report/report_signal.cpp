#include "launch/report/report_signal.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/core/error.h"

namespace recollect {

namespace {

std::atomic<uint32_t> times_asked = 0;
static_assert(std::atomic<uint32_t>::is_always_lock_free, "a signal handler may not wait");

sigset_t only_ours() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR2);
  return signals;
}

void ask(int) { times_asked.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

ReportSignal::ReportSignal() : start_(times_asked.load(std::memory_order_relaxed)) {
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;  // a rank that waits continues to wait
  sigemptyset(&action.sa_mask);
  require(sigaction(SIGUSR2, &action, &before_) == 0,
          std::string("SIGUSR2 has no handler: ") + std::strerror(errno));
  const sigset_t signal = only_ours();
  pthread_sigmask(SIG_UNBLOCK, &signal, &mask_before_);
}

// Threads that were made meanwhile do not block the signal, even if this thread blocks it. So it must not end
// the process.
ReportSignal::~ReportSignal() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  if (before_.sa_handler == SIG_DFL) before_.sa_handler = SIG_IGN;
  sigaction(SIGUSR2, &before_, nullptr);
}

void ReportSignal::hold() {
  const sigset_t signal = only_ours();
  pthread_sigmask(SIG_BLOCK, &signal, nullptr);
}

uint32_t ReportSignal::count() const { return times_asked.load(std::memory_order_relaxed) - start_; }

}  // namespace recollect
