// Preloaded into a run (LD_PRELOAD), it stands between the program with all its libraries and the C library,
// and writes every allocation of the steps that are looked at into the log (allocation_log.h). Which step the
// run is in, it reads from what the run writes: the line of metrics.jsonl that follows each step.
//
// What it does not see: memory that the C library takes for itself, such as the stacks of threads; each of
// those comes with an allocation that it does see.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/launch/allocation_counter/allocation_log.h"

extern "C" {
// The C library's own names for what this library replaces.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

using recollect::test::Allocation;
using recollect::test::AllocationLog;

AllocationLog* log_of_run = nullptr;
thread_local bool busy __attribute__((tls_model("initial-exec"))) = false;  // with an entry of its own

__attribute__((constructor)) void open_log() {
  const char* path = std::getenv(recollect::test::kAllocationLogVariable);
  const int file = path ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* memory = reinterpret_cast<void*>(
      ::syscall(SYS_mmap, nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ::close(file);
  if (memory == MAP_FAILED) return;
  void* callers[1];
  ::backtrace(callers, 1);  // its first call loads a library
  log_of_run = static_cast<AllocationLog*>(memory);
  ++log_of_run->processes;
}

void write_callers(Allocation& entry) {
  constexpr int kOwn = 2;  // this function and record()
  void* callers[recollect::test::kAllocationCallers + kOwn];
  const int count = ::backtrace(callers, recollect::test::kAllocationCallers + kOwn);
  for (int i = kOwn; i < count; ++i) {
    Dl_info info{};
    if (::dladdr(callers[i], &info) == 0 || !info.dli_fname) continue;
    const char* name = std::strrchr(info.dli_fname, '/');
    std::snprintf(entry.callers[i - kOwn], sizeof entry.callers[0], "%.60s+0x%zx",
                  name ? name + 1 : info.dli_fname,
                  static_cast<size_t>(static_cast<char*>(callers[i]) - static_cast<char*>(info.dli_fbase)));
  }
}

__attribute__((noinline)) void record(const char* call, size_t bytes) {
  AllocationLog* const log = log_of_run;
  if (!log || busy) return;
  busy = true;
  const int64_t step = log->step;
  if (step < log->first_step || step > log->last_step) {
    ++log->outside;
  } else if (const int64_t place = log->allocations++; place < recollect::test::kMostAllocations) {
    Allocation& entry = log->list[place];
    entry.process = ::getpid();
    entry.thread = static_cast<int32_t>(::syscall(SYS_gettid));
    entry.step = step;
    entry.bytes = bytes;
    std::snprintf(entry.call, sizeof entry.call, "%s", call);
    write_callers(entry);
  }
  busy = false;
}

// The run is in the step after the one whose line this is.
void look_for_step(const void* text, size_t bytes) {
  constexpr char kLine[] = "{\"step\": ";
  constexpr size_t kBytes = sizeof kLine - 1;
  if (!log_of_run || bytes <= kBytes || std::memcmp(text, kLine, kBytes) != 0) return;
  int64_t step = 0;
  for (const char* c = static_cast<const char*>(text) + kBytes; *c >= '0' && *c <= '9'; ++c)
    step = 10 * step + (*c - '0');
  log_of_run->step = step + 1;
}

void* aligned_memory(size_t alignment, size_t bytes, const char* call) {
  record(call, bytes);
  return __libc_memalign(alignment, bytes);
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) noexcept {
  record("malloc", bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) noexcept {
  record("calloc", count * bytes);
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) noexcept {
  record("realloc", bytes);
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return aligned_memory(alignment, bytes, "memalign");
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return aligned_memory(alignment, bytes, "aligned_alloc");
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  void* const got = aligned_memory(alignment, bytes, "posix_memalign");
  if (!got) return ENOMEM;
  *memory = got;
  return 0;
}

void* mmap(void* address, size_t bytes, int rights, int flags, int file, off_t offset) noexcept {
  record("mmap", bytes);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, rights, flags, file, offset));
}

void* mmap64(void* address, size_t bytes, int rights, int flags, int file, off64_t offset) noexcept {
  return mmap(address, bytes, rights, flags, file, offset);
}

ssize_t write(int file, const void* text, size_t bytes) {
  const ssize_t written = ::syscall(SYS_write, file, text, bytes);
  const int reason = errno;
  if (written == static_cast<ssize_t>(bytes)) look_for_step(text, bytes);
  errno = reason;
  return written;
}

}  // extern "C"
