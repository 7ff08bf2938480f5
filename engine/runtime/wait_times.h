// How long streams stood waiting for each other, and whose doing it was. Times are seconds on any clock that
// all streams share. Each stream reports its own ops, in order; what one stream writes, another reads only
// after waiting for it.
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
  // The stream of `waiter` stood from `start` to `end` for the op `before`, of another stream. What does not
  // count is remembered as a cause, but not summed.
  void waited(OpId waiter, OpId before, double start, double end, bool counts);
  // Op `id` begins: all its waits are reported.
  void begins(OpId id) { began_after_[id] = held_up_[stream_of(id)]; }
  // The end of the run was this much later than that of the compute stream.
  void joined(double seconds) { join_ += seconds; }
  // The compute stream stood for that stream though nobody saw for which op.
  void add_exposed(StreamId stream, double seconds) { exposed_[static_cast<int>(stream)] += seconds; }

  // Seconds that each op's stream has spent waiting for other streams on its behalf, summed over runs.
  std::span<const double> by_op() const { return by_op_; }
  // Of those, what the compute stream waited because another one was not ready, which is the one that was
  // really late: a copy that could not begin because of the disk is the disk's doing. And for all of them at
  // the end of runs. Together they are the compute stream's idle time.
  double exposed(StreamId stream) const { return exposed_[static_cast<int>(stream)]; }
  double join() const { return join_; }
  double total_exposed() const;

 private:
  // The last time that a stream had to wait in this run: until when, and for which op.
  struct HeldUp {
    double until = -std::numeric_limits<double>::infinity();
    OpId by = kNone;
  };

  int stream_of(OpId id) const { return static_cast<int>(streams_[id]); }
  void expose(OpId before, double start, double end);

  std::vector<StreamId> streams_;               // by op
  std::vector<double> by_op_;                   // written by the op's own stream
  std::vector<HeldUp> began_after_;             // by op: what its stream had last waited for when it began
  std::array<HeldUp, kStreamCount> held_up_{};  // each written by its own stream
  std::array<double, kStreamCount> exposed_{};  // written by the compute stream
  double join_ = 0;
};

}  // namespace recollect
