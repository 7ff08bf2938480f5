#include "engine/core/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Addresses before and after that nobody may touch: whole pages, whatever their size.
constexpr std::size_t kGuard = 65536;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kGuard - 1) / kGuard * kGuard; }

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
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM)
    throw Error(ExitCode::kDeviceMemory,
                "the system has no " + byte_count(bytes) + " of memory left for an arena", kLess);
}

}  // namespace recollect
