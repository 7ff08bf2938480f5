// How long a rank's collective calls took on one communicator. A call is waiting until the last peer has
// come, and transfer for the rest of its time: bytes moved and summed, its own and, where these hold it up,
// others'. Written by the thread that makes the calls; others read when that thread is idle.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace recollect {

class CallTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // `ranks`: of the group, by their numbers in the world.
  explicit CallTimes(std::vector<int> ranks) : ranks_(std::move(ranks)), by_rank_(ranks_.size(), 0.0) {}

  double waiting() const { return waiting_; }    // seconds
  double transfer() const { return transfer_; }  // seconds
  const std::vector<int>& ranks() const { return ranks_; }
  // Of waiting(), by rank of the group: whose coming ended it.
  const std::vector<double>& waiting_by_rank() const { return by_rank_; }
  // The rank, by its number in the world, for which the latest call waited longest; -1: for nobody.
  int latest() const { return latest_; }

  void waited(int rank, Clock::duration time) {
    const double seconds = std::max(0.0, std::chrono::duration<double>(time).count());
    waiting_ += seconds;
    by_rank_[rank] += seconds;
    if (seconds <= longest_) return;
    longest_ = seconds;
    latest_ = ranks_[rank];
  }

 private:
  friend class CallTimer;

  std::vector<int> ranks_;
  std::vector<double> by_rank_;
  double waiting_ = 0, transfer_ = 0, longest_ = 0;
  int latest_ = -1;
};

// Lives as long as one call.
class CallTimer {
 public:
  explicit CallTimer(CallTimes& times) : times_(times), waiting_before_(times.waiting_) {
    times_.longest_ = 0;
    times_.latest_ = -1;
  }
  ~CallTimer() {
    const double seconds = std::chrono::duration<double>(CallTimes::Clock::now() - start_).count();
    times_.transfer_ += std::max(0.0, seconds - (times_.waiting_ - waiting_before_));
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  CallTimes& times_;
  const double waiting_before_;
  const CallTimes::Clock::time_point start_ = CallTimes::Clock::now();
};

}  // namespace recollect
