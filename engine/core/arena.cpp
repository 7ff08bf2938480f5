#include "engine/core/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

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
  const std::string size = std::to_string(bytes);
  if (memory == MAP_FAILED)
    throw Error(ExitCode::kDeviceMemory, "cannot reserve " + size + " bytes: " + std::strerror(errno),
                "lower training.micro_batch_size or use more tensor-parallel ranks");
  memory_ = {static_cast<std::byte*>(memory), Deleter{bytes, unmap}};
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page-table misses; advice only
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM)
    throw Error(ExitCode::kDeviceMemory, "the system has no " + size + " bytes of memory to back the arena",
                "lower training.micro_batch_size or use more tensor-parallel ranks");
}

}  // namespace recollect
