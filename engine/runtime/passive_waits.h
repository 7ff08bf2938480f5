// Makes waiting OpenMP threads sleep instead of spin while the program runs. Results do not change.
//
// GNU's OpenMP spins for milliseconds before a waiting thread sleeps, and the spin count is fixed when the
// library is loaded. It hardly spins, however, while it manages more threads than there are cores.
// PassiveWaits therefore keeps a second team of idle threads alive. Other implementations of OpenMP are not
// affected.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace recollect {

// A value of GOMP_SPINCOUNT for programs that are yet to start: so few spins cost an idle machine nothing and
// a busy one little (tests/bench/README.md).
inline constexpr const char* kShortSpins = "2000";

// Returns true if the environment sets how OpenMP waits, other than by kShortSpins. That choice is left
// alone.
bool waits_are_chosen();

class PassiveWaits {
 public:
  PassiveWaits() = default;
  ~PassiveWaits() { end(); }
  PassiveWaits(const PassiveWaits&) = delete;
  PassiveWaits& operator=(const PassiveWaits&) = delete;

  // `team`: the number of threads in this process's computing team. Returns false, and changes nothing, if
  // the system cannot provide the threads.
  bool begin(int team);
  void end();
  bool are_on() const { return holder_.joinable(); }

 private:
  void hold(int threads);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread holder_;  // the first thread of the idle team, which lives as long as this thread
};

}  // namespace recollect
