// Measures how long a rank's calls took on one communicator and, if there is a log, notes what they were.
// Waiting is the time until the last peer has entered the call, and later times in which nothing moves
// because a peer has stopped, if the transport shows that (TCP does, MPI does not). The rest of a call is
// transfer: moving and summing bytes, its own and, where they hold it up, those of others. The thread that
// makes the calls writes; others may read while that thread is idle.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_log.h"

namespace recollect {

class CallTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // `ranks`: the group's ranks, by their numbers in the world.
  explicit CallTimes(std::vector<int> ranks) : ranks_(std::move(ranks)), by_rank_(ranks_.size(), 0.0) {}

  double waiting() const { return waiting_; }    // seconds
  double transfer() const { return transfer_; }  // seconds
  const std::vector<int>& ranks() const { return ranks_; }
  // The parts of waiting(), by rank of the group: the rank whose arrival ended the wait.
  const std::vector<double>& waiting_by_rank() const { return by_rank_; }
  // The rank, by its number in the world, for which the latest call waited longest; -1 if it waited for none.
  int latest() const { return latest_; }

  void waited(int rank, Clock::duration time) {
    const double seconds = std::max(0.0, std::chrono::duration<double>(time).count());
    waiting_ += seconds;
    by_rank_[rank] += seconds;
    if (seconds <= longest_) return;
    longest_ = seconds;
    latest_ = ranks_[rank];
  }

  // Calls are also noted in this log, under the name of `op` while it is not null. The text of `op` must stay
  // valid.
  void note_in(std::shared_ptr<CallLog> log) { log_ = std::move(log); }
  const std::shared_ptr<CallLog>& log() const { return log_; }
  void name_op(const char* op) { op_ = op; }
  // Returns " (layer3/mlp/fc2)", or "" if no op makes the call.
  std::string op_text() const { return op_ ? " (" + std::string(op_) + ")" : ""; }
  // Notes what is called, within the lifetime of a CallTimer. Called twice if one call sends and receives.
  void began(const CollectiveCall& call) {
    if (log_ && timed_ && open_count_ < open_.size()) open_[open_count_++] = log_->begin(call, ranks_, op_);
  }

 private:
  friend class CallTimer;

  void begin_call() {
    longest_ = 0;
    latest_ = -1;
    timed_ = true;
    open_count_ = 0;
  }
  // A call that failed stays open in the log.
  void end_call() {
    timed_ = false;
    if (std::uncaught_exceptions() == 0)
      for (std::size_t i = 0; i < open_count_; ++i) log_->end(open_[i]);
  }

  std::vector<int> ranks_;
  std::vector<double> by_rank_;
  double waiting_ = 0, transfer_ = 0, longest_ = 0;
  int latest_ = -1;
  std::shared_ptr<CallLog> log_;
  const char* op_ = nullptr;
  bool timed_ = false;
  std::array<uint64_t, 2> open_ = {};  // numbers in the log
  std::size_t open_count_ = 0;
};

// Measures one call: lives as long as it.
class CallTimer {
 public:
  explicit CallTimer(CallTimes& times) : times_(times), waiting_before_(times.waiting_) {
    times_.begin_call();
  }
  ~CallTimer() {
    times_.end_call();
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
