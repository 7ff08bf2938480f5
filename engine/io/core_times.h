// What the system says of the cores and of this process's threads on them: how long they ran, and how long they stood
// ready to run while other threads had the cores. Looking allocates nothing.
#pragma once

#include <dirent.h>

#include <memory>
#include <optional>
#include <string>

namespace recollect {

// Seconds, counted from some time on. Differences of two looks are what is of use.
struct CoreTimes {
  double running = 0, waiting = 0;  // of the threads that the process has by now, all together
  double of_process = 0;            // running, those that have ended included
  double of_machine = 0;            // all processes on all cores
};

// Threads of the machine that have a core or want one.
struct MachineLoad {
  double average = 0;  // of a minute
  int now = 0;
};

class CoreClock {
 public:
  // `proc`: the system's folder of processes; another one in tests.
  explicit CoreClock(const std::string& proc = "/proc");
  // Nothing where the system does not say.
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
