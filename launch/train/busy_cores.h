// Whether other processes take the cores of this one, by the time that its threads stood ready to run without a core. While
// that is so, OpenMP's threads wait passively: they sleep, and leave the core to whom they wait for.
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

// Between two looks at a process.
struct CoreContention {
  double waiting = 0;  // share of the time that its threads were ready to run in
  bool by_others = false;

  bool is_contested() const { return waiting > 0.1 && by_others; }
  bool is_calm() const { return waiting < 0.02; }
};

// `processes`: of the run, on this machine, all as busy as this one. Nothing where its threads hardly ran, or some of them
// are gone.
std::optional<CoreContention> contention(const CoreTimes& before, const CoreTimes& after, int processes);

class BusyCores {
 public:
  // `team`: threads of a rank's kernels. `processes`: as above.
  BusyCores(int team, int processes);

  // Before the first step and after each; looks about once a second. A sentence the first time that cores are contested; else "".
  std::string look();

 private:
  using Clock = std::chrono::steady_clock;

  std::string adapt(const CoreContention& found);
  std::string sentence(double waiting) const;

  const int team_, processes_;
  CoreClock clock_;
  std::optional<CoreTimes> before_;
  Clock::time_point next_;
  int calm_ = 0;  // looks in a row
  bool told_ = false;
  PassiveWaits passive_;
};

// Of this process; null on all but one of its ranks, where kernels run on another device, and where the user has said how
// OpenMP waits. After threads are agreed on.
std::unique_ptr<BusyCores> watch_cores(const Config& config, const Communicator& world);

}  // namespace recollect
