#include "engine/io/core_times.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "engine/io/descriptor.h"

namespace recollect {

namespace {

using Text = std::array<char, 256>;

// Returns the beginning of a file, as much as fits; "" if it cannot be read.
Text beginning(int folder, const char* path) {
  Text text{};
  const Descriptor file(::openat(folder, path, O_RDONLY | O_CLOEXEC));
  if (file && ::read(file.get(), text.data(), text.size() - 1) < 0) text[0] = '\0';
  return text;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

CoreClock::CoreClock(const std::string& proc)
    : stat_(proc + "/stat"), load_(proc + "/loadavg"), threads_(::opendir((proc + "/self/task").c_str())) {}

// Each schedstat file has two times in nanoseconds: running on a core, and ready to run but waiting for one.
// A thread that ends meanwhile is skipped.
bool CoreClock::add_threads(CoreTimes& times) {
  bool known = false;
  ::rewinddir(threads_.get());
  while (const dirent* thread = ::readdir(threads_.get())) {
    if (thread->d_name[0] == '.') continue;
    std::array<char, sizeof thread->d_name + 16> path;
    std::snprintf(path.data(), path.size(), "%s/schedstat", thread->d_name);
    unsigned long long running = 0, waiting = 0;
    const Text text = beginning(::dirfd(threads_.get()), path.data());
    if (std::sscanf(text.data(), "%llu %llu", &running, &waiting) != 2) continue;
    times.running += 1e-9 * static_cast<double>(running);
    times.waiting += 1e-9 * static_cast<double>(waiting);
    known = true;
  }
  return known;
}

std::optional<CoreTimes> CoreClock::read() {
  CoreTimes times{.of_process = processor_seconds()};
  if (!threads_ || !add_threads(times)) return std::nullopt;
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, disk = 0, hard = 0, soft = 0;
  const Text text = beginning(AT_FDCWD, stat_.c_str());
  if (std::sscanf(text.data(), "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &disk,
                  &hard, &soft) != 7)
    return std::nullopt;
  times.of_machine =
      static_cast<double>(user + nice + system + hard + soft) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return times;
}

std::optional<MachineLoad> CoreClock::load() const {
  MachineLoad load;
  double five = 0, fifteen = 0;
  const Text text = beginning(AT_FDCWD, load_.c_str());
  if (std::sscanf(text.data(), "%lf %lf %lf %d/", &load.average, &five, &fifteen, &load.now) != 4)
    return std::nullopt;
  return load;
}

}  // namespace recollect
