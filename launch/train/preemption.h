// Handles preemption: signals that ask a run to end so that it can be resumed later. These are SIGUSR1, and
// SIGTERM if it leaves time for a step and a snapshot. Slurm and `recollect run` leave 30 seconds by default.
// mpirun leaves one second, which is too little: there SIGTERM ends the process at once, as it does if no
// snapshots are saved, or before the first step. A separate thread waits for the signals at all times; the
// ranks of the process ask it between two steps. The second signal ends the process at once. A signal within
// half a second of the first counts as the same request, because launchers and batch systems may both pass it
// on.
//
// SIGINT (Ctrl-C) ends a process without a launcher at once, with a message on what is saved. Launchers print
// their own message.
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

// Seconds from SIGTERM to SIGKILL, from the environment of the process.
double grace_seconds(const std::function<const char*(const char*)>& environment);

class Preemption {
 public:
  // Call it at the start of a run, while it has one thread. Blocks the signals until an object of this class
  // exists.
  static void hold();

  // `ranks` are those of this process; the thread watches them too.
  explicit Preemption(RankWatch& ranks);
  // Restores the former handling of the signals, and ignores SIGUSR1.
  ~Preemption();
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

  // Each rank calls it before its first step: from now on there is progress to save. `done` is the number of
  // finished steps.
  void begin_steps(const Config& config, int64_t done);
  void after_step(int64_t step) { step_ = step; }
  // Collective, between two steps. Returns the signal that the process of any rank received, or 0.
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
  std::atomic<int64_t> step_ = 0;  // finished steps
  struct Run {
    int64_t steps;
    std::string snapshots, resume;  // snapshots: the folder; "" if none are saved
  };
  mutable std::mutex mutex_;
  std::optional<Run> run_;      // set once it trains
  Clock::time_point asked_at_;  // used only by the thread
  int late_ = 0;                // also; a signal that came while it was quitting
  std::thread thread_;          // last, because it uses all other members
};

}  // namespace recollect
