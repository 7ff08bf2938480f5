// Freed memory that the allocator keeps is given back to the system, so that resident memory is what was predicted.
#pragma once

#include <malloc.h>

#include <mutex>

namespace recollect {

// One thread at a time: where another allocator serves malloc (a sanitizer's, a preloaded one), the first call sets up
// glibc's own, and that takes no lock.
inline void give_back_freed_memory() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  ::malloc_trim(0);
}

}  // namespace recollect
