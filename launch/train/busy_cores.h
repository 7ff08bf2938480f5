// Detects whether other processes take the cores of this one, from the time that its threads were ready to
// run without a core. During that, OpenMP's threads wait passively: they sleep and leave the core to the
// thread that they wait for.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "engine/io/core_times.h"
#include "engine/runtime/passive_waits.h"
#include "launch/config/config.h"

namespace recollect {

// The contention between two readings.
struct CoreContention {
  double waiting = 0;  // fraction of the threads' ready time without a core
  bool by_others = false;

  bool is_contested() const { return waiting > 0.1 && by_others; }
  bool is_calm() const { return waiting < 0.02; }
};

// `processes` is the number of the run's processes on this machine, assumed to be as busy as this one. Empty
// if its threads hardly ran, or some of them have ended.
std::optional<CoreContention> contention(const CoreTimes& before, const CoreTimes& after, int processes);

class BusyCores {
 public:
  // `team` is the number of threads of a rank's kernels. `processes` is as above.
  BusyCores(int team, int processes);

  // Call it before the first step and after each; it measures about once a second. Returns a message the
  // first time that cores are contested; else "".
  std::string look();

 private:
  using Clock = std::chrono::steady_clock;

  std::string adapt(const CoreContention& found);
  std::string sentence(double waiting) const;

  const int team_, processes_;
  CoreClock clock_;
  std::optional<CoreTimes> before_;
  Clock::time_point next_;
  int calm_ = 0;  // calm readings in a row
  bool told_ = false;
  PassiveWaits passive_;
};

// Call it after the ranks have agreed on threads. One rank of a process gets the object. Null on all others,
// if kernels run on another device, and if the user has set OpenMP's waiting policy.
std::unique_ptr<BusyCores> watch_cores(const Config& config, const Communicator& world);

}  // namespace recollect
