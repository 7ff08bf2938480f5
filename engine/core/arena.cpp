#include "engine/core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Address space before and after the arena that cannot be accessed: whole pages, whatever their size.
constexpr std::size_t kGuard = 65536;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kGuard - 1) / kGuard * kGuard; }

// Backs the memory with pages, from several threads, because the system clears pages only as fast as one
// thread asks for them. Returns 0, or the errno if some pages cannot be had.
int populate(std::byte* memory, std::size_t bytes) {
  constexpr std::size_t kAtOnce = std::size_t{64} << 20;  // bytes that a thread takes at a time
  std::atomic<std::size_t> next{0};
  std::atomic<int> failed{0};
  const auto work = [&] {
    for (std::size_t at = next.fetch_add(kAtOnce); at < bytes; at = next.fetch_add(kAtOnce))
      if (madvise(memory + at, std::min(kAtOnce, bytes - at), MADV_POPULATE_WRITE) != 0) failed = errno;
  };
  std::vector<std::jthread> threads;
  const std::size_t most = std::min<std::size_t>(std::thread::hardware_concurrency(), bytes / (4 * kAtOnce));
  try {
    while (threads.size() + 1 < most) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: the existing ones do the work
  }
  work();
  threads.clear();
  return failed;
}

void unmap(std::byte* base, std::size_t bytes) { munmap(base - kGuard, whole_pages(bytes) + 2 * kGuard); }

}  // namespace

Arena::Arena(std::size_t bytes) {
  if (bytes == 0) return;
  void* memory =
      mmap(nullptr, whole_pages(bytes) + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    std::byte* const start = static_cast<std::byte*>(memory) + kGuard;
    memory = mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0 ? start : MAP_FAILED;
    if (memory == MAP_FAILED) unmap(start, bytes);
  }
  constexpr const char* kLess =
      "other processes take memory too: end some, or let the run take less; `recollect estimate CONFIG "
      "--compare` "
      "shows what activation checkpointing saves, optimizer.name adamw8bit and optimizer.offload keep fewer "
      "states, "
      "and a smaller training.micro_batch_size takes less";
  if (memory == MAP_FAILED)
    throw Error(ExitCode::kDeviceMemory, "cannot reserve " + byte_count(bytes) + ": " + std::strerror(errno),
                kLess);
  memory_ = {static_cast<std::byte*>(memory), Deleter{bytes, unmap}};
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page-table misses; advice only
  if (populate(static_cast<std::byte*>(memory), bytes) == ENOMEM)
    throw Error(ExitCode::kDeviceMemory,
                "the system has no " + byte_count(bytes) + " of memory left for an arena", kLess);
}

}  // namespace recollect
