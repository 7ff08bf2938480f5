// WaitTimes sums up how long streams waited for each other, and which stream caused each wait. Times are
// seconds on any clock that all streams share. Each stream reports its own ops, in order. A stream reads what
// another one wrote only after waiting for it, so no lock is needed.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class WaitTimes {
 public:
  explicit WaitTimes(const Graph& graph);
  explicit WaitTimes(std::vector<StreamId> streams);  // by op

  void begin_run();
  // The stream of `waiter` waited from `start` to `end` for op `before` of another stream. If `counts` is
  // false, the wait is remembered as a possible cause of other waits, but not summed.
  void waited(OpId waiter, OpId before, double start, double end, bool counts);
  // Op `id` begins; all its waits have been reported.
  void begins(OpId id) { began_after_[id] = held_up_[stream_of(id)]; }
  // The run ended so many seconds after the compute stream.
  void joined(double seconds) { join_ += seconds; }
  // The compute stream waited for that stream, and it is not known for which op.
  void add_exposed(StreamId stream, double seconds) { exposed_[static_cast<int>(stream)] += seconds; }

  // Seconds that each op's stream waited for other streams before it could run the op, summed over runs.
  std::span<const double> by_op() const { return by_op_; }
  // exposed() is the time that the compute stream was idle because of that stream. It is charged to the
  // stream that was really late: if a copy started late because of the disk, the disk is charged. join() is
  // the time at the end of runs in which the compute stream waited for all others. Together they are the
  // compute stream's idle time.
  double exposed(StreamId stream) const { return exposed_[static_cast<int>(stream)]; }
  double join() const { return join_; }
  double total_exposed() const;

 private:
  // The last wait of a stream in this run: when it ended, and for which op.
  struct HeldUp {
    double until = -std::numeric_limits<double>::infinity();
    OpId by = kNone;
  };

  int stream_of(OpId id) const { return static_cast<int>(streams_[id]); }
  void expose(OpId before, double start, double end);

  std::vector<StreamId> streams_;               // by op
  std::vector<double> by_op_;                   // written by the op's own stream
  std::vector<HeldUp> began_after_;             // by op: the last wait of its stream before it began
  std::array<HeldUp, kStreamCount> held_up_{};  // each written by its own stream
  std::array<double, kStreamCount> exposed_{};  // written by the compute stream
  double join_ = 0;
};

}  // namespace recollect
