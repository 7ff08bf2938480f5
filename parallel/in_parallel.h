// Work on all threads, which may fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace recollect {

// Calls work(0) ... work(count - 1), in this order as threads are free. Where one fails no more are begun, and the first
// failure is thrown once all that were begun have ended.
template <typename Work>
void in_parallel(int64_t count, const Work& work) {
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
#pragma omp parallel for schedule(dynamic) if (count > 1)
  for (int64_t i = 0; i < count; ++i) {
    if (failed) continue;
    try {
      work(i);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace recollect
