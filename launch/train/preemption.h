// What asks a run to end, and to be gone on with later: SIGUSR1, and SIGTERM where whoever sends it leaves time for a step
// and a snapshot. Slurm and `recollect run` do, 30 seconds by default; mpirun leaves one second, in which nothing can be
// promised: there SIGTERM ends the process at once, as it does where no snapshots are saved, or before the first step.
// A thread of its own waits for the signals, whatever the ranks of the process are doing, and between two steps these ask.
// The second signal ends the process at once; what comes within half a second of the first is the same request, which
// launchers and batch systems both pass on.
//
// SIGINT, Ctrl-C, ends a process that no launcher has started at once, with a sentence on what is saved. Launchers have words of
// their own for it.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/communicator.h"
#include "launch/config/config.h"
#include "launch/train/rank_watch.h"

namespace recollect {

// Seconds from SIGTERM to SIGKILL, as far as the environment of the process says.
double grace_seconds(const std::function<const char*(const char*)>& environment);

class Preemption {
 public:
  // For the first instructions of a run, while it has one thread: the signals wait until there is an object of this class.
  static void hold();

  // `ranks` of this process: its thread looks after them too.
  explicit Preemption(RankWatch& ranks);
  // The signals mean again what they meant before; SIGUSR1 nothing.
  ~Preemption();
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

  // From now on there is something to lose, and to save where the run saves snapshots. `done`: steps. Of each rank.
  void begin_steps(const Config& config, int64_t done);
  void after_step(int64_t step) { step_ = step; }
  // Collective, between two steps: the signal that some rank's process was sent; 0: none was.
  int agree(Communicator& world) const;

 private:
  using Clock = std::chrono::steady_clock;

  void attend();
  void take(int signal);
  std::string interrupted_text() const;
  [[noreturn]] void end_at_once(int signal, const std::string& why);

  RankWatch& ranks_;
  sigset_t signals_{};
  const bool grace_suffices_;
  std::atomic<bool> quits_ = false, may_wait_ = false;
  std::atomic<int> asked_ = 0;
  std::atomic<int64_t> step_ = 0;  // done
  struct Run {
    int64_t steps;
    std::string snapshots, resume;  // the folder, "" where none are saved
  };
  mutable std::mutex mutex_;
  std::optional<Run> run_;      // once it trains
  Clock::time_point asked_at_;  // the thread's
  int late_ = 0;                // likewise: a signal that came when it was told to quit
  std::thread thread_;          // last: it uses all the others
};

}  // namespace recollect
