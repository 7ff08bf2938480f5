// Makes OpenMP's threads sleep where they wait for each other, while the program runs; what they compute stays the same.
//
// GNU's OpenMP spins for milliseconds before it sleeps, and how long is fixed once it is loaded. It hardly spins, though, as
// long as it manages more threads than there are cores. So a team of threads that have nothing to do is kept beside the
// others. Other implementations of OpenMP take no notice.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace recollect {

// Spins before OpenMP's threads sleep that cost an idle machine nothing and a busy one little: a value of GOMP_SPINCOUNT for
// programs that are yet to start (tests/bench/README.md).
inline constexpr const char* kShortSpins = "2000";

// Whether the environment says how OpenMP waits, other than in kShortSpins: then it stays so.
bool waits_are_chosen();

class PassiveWaits {
 public:
  PassiveWaits() = default;
  ~PassiveWaits() { end(); }
  PassiveWaits(const PassiveWaits&) = delete;
  PassiveWaits& operator=(const PassiveWaits&) = delete;

  // `team`: threads of a team of this process that computes. False where the system gives no threads for it: then all is
  // as it was.
  bool begin(int team);
  void end();
  bool are_on() const { return holder_.joinable(); }

 private:
  void hold(int threads);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread holder_;  // the team's first thread: the team lives as long as it does
};

}  // namespace recollect
