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

void ask(int) { times_asked.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

ReportSignal::ReportSignal() : start_(times_asked.load(std::memory_order_relaxed)) {
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;  // whatever a rank waits for, it goes on waiting
  sigemptyset(&action.sa_mask);
  require(sigaction(SIGUSR2, &action, &before_) == 0,
          std::string("SIGUSR2 has no handler: ") + std::strerror(errno));
}

ReportSignal::~ReportSignal() { sigaction(SIGUSR2, &before_, nullptr); }

uint32_t ReportSignal::count() const { return times_asked.load(std::memory_order_relaxed) - start_; }

}  // namespace recollect
