// Sleeping on a 32-bit word that processes may share. A wake between a caller's look at the word and its wait
// is not lost if the word changed in between. Sleepers also look again after `longest`.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace recollect::local {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec limit{seconds.count(), (longest - seconds).count() * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace recollect::local
