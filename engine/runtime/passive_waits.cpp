#include "engine/runtime/passive_waits.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

namespace recollect {

namespace {

// OpenMP ends the process if it cannot get its threads, so this tries first whether the system provides as
// many.
bool may_have_threads(int count) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  bool all = true;
  std::unique_lock made(mutex);
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&mutex] { const std::lock_guard wait(mutex); });
  } catch (const std::exception&) {
    all = false;
  }
  made.unlock();
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace

bool waits_are_chosen() {
  const char* const spins = std::getenv("GOMP_SPINCOUNT");
  return std::getenv("OMP_WAIT_POLICY") || (spins && std::string_view(spins) != kShortSpins);
}

bool PassiveWaits::begin(int team) {
  if (are_on()) return true;
  const int sleepers = std::max(1, omp_get_num_procs() + 1 - team), threads = sleepers + 1;
  if (omp_get_thread_limit() < threads || !may_have_threads(threads)) return false;
  ending_ = false;
  try {
    holder_ = std::thread([this, threads] { hold(threads); });
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void PassiveWaits::hold(int threads) {
  std::atomic<int> come = 0;
#pragma omp parallel num_threads(threads)
  come.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return ending_; });
}

void PassiveWaits::end() {
  if (!are_on()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  holder_.join();
}

}  // namespace recollect
