// Returns freed memory that the allocator still holds to the system, so that resident memory is as predicted.
#pragma once

#include <malloc.h>

#include <mutex>

namespace recollect {

// One thread at a time: if another allocator serves malloc (a sanitizer's, a preloaded one), the first call
// initialises glibc's own allocator without a lock.
inline void give_back_freed_memory() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  ::malloc_trim(0);
}

}  // namespace recollect
