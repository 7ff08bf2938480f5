// How long a rank's calls took on one communicator; and, where there is a log, what they were. A call is waiting until the
// last peer has come, and while nothing moves afterwards because a peer stands still, where messages show that (over tcp
// they do, over MPI not). It is transfer for the rest of its time: bytes moved and summed, its own and, where these hold it
// up, others'. Written by the thread that makes the calls; others read when that thread is idle.
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

  // Calls are noted there too, and named after an op as long as `op`, whose text must stay, is not null.
  void note_in(std::shared_ptr<CallLog> log) { log_ = std::move(log); }
  const std::shared_ptr<CallLog>& log() const { return log_; }
  void name_op(const char* op) { op_ = op; }
  // " (layer3/mlp/fc2)"; "" where no op makes the call.
  std::string op_text() const { return op_ ? " (" + std::string(op_) + ")" : ""; }
  // Within a CallTimer's life: what is called; twice where one call sends and receives.
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
  // What has failed stays open in the log.
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
  std::array<uint64_t, 2> open_ = {};  // numbers of the log
  std::size_t open_count_ = 0;
};

// Lives as long as one call.
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
