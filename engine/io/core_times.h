// Measures the use of the cores from the system's counters: how long this process's threads ran, and how long
// they were ready to run while other threads had the cores. Reading the counters allocates nothing.
#pragma once

#include <dirent.h>

#include <memory>
#include <optional>
#include <string>

namespace recollect {

// Times in seconds, counted from an arbitrary start. Only differences between two readings have a meaning.
struct CoreTimes {
  double running = 0, waiting = 0;  // sum over the threads that the process has now
  double of_process = 0;            // running time, including threads that have ended
  double of_machine = 0;            // running time of all processes on all cores
};

// The number of threads on the machine that run or want to run.
struct MachineLoad {
  double average = 0;  // over the last minute
  int now = 0;
};

class CoreClock {
 public:
  // `proc`: the system's process folder; tests use another one.
  explicit CoreClock(const std::string& proc = "/proc");
  // Both return nothing if the system does not provide the numbers.
  std::optional<CoreTimes> read();
  std::optional<MachineLoad> load() const;

 private:
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };

  bool add_threads(CoreTimes& times);

  std::string stat_, load_;
  std::unique_ptr<DIR, Close> threads_;
};

}  // namespace recollect
