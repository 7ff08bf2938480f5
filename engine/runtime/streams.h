// Streams execute a program's ops. Each op is issued on its own stream, after the ops of other streams that
// it waits for according to the schedule. There are two kinds: threads of this process, and the queues of a
// device.
#pragma once

#include <functional>
#include <vector>

#include "engine/runtime/kernel.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/wait_times.h"

namespace recollect {

// What streams need to know about a program. The graph and the schedule must outlive them.
struct StreamOps {
  const Graph& graph;
  const Schedule& schedule;
  // Runs or enqueues one op. The streams fill in three of the arguments: the state, its copy on the device,
  // and the native stream.
  std::function<void(OpId, const KernelArgs&)> run;
  // Called on the op's stream for every op in order, also for one that is skipped: `before` when the op's
  // waits have ended, `after` before another stream can see that the op is done. Either both are set or
  // neither is.
  std::function<void(OpId)> before, after;
};

// When the ops of a run were on their streams, in seconds since the run began. The entry of a skipped op is
// meaningless.
struct RunTimes {
  struct OpSpan {
    double begin = 0, end = 0;
  };
  double seconds = 0;  // the duration of the whole run
  OpId first = 0;
  std::vector<OpSpan> ops = {};  // from `first` on
};

class Streams {
 public:
  explicit Streams(StreamOps ops) : ops_(std::move(ops)), waits_(ops_.graph) {}
  virtual ~Streams() = default;

  // Runs ops [begin, end). Returns when all streams are idle. Throws the Error of any op.
  virtual void run(OpId begin, OpId end, const RunState& state) = 0;

  // Turns timing of each op on or off for the following runs. Only streams that enqueue need it: they call
  // `before` and `after` when an op is enqueued, and not at all when a run is replayed. Timing costs a few
  // events per op. Streams that are threads ignore it.
  virtual void time_ops(bool) {}
  // The times of the latest run; null if it was not timed.
  virtual const RunTimes* times() const { return nullptr; }

  // The device's own handle of that stream, as kernels get it; null if streams are threads.
  virtual void* native(StreamId) { return nullptr; }
  // Returns when everything that was enqueued on that stream between runs is done.
  virtual void finish(StreamId) {}

  const WaitTimes& waits() const { return waits_; }

  // Seconds of processor time that the ops of a side stream used in training, summed over runs. Call it
  // between runs. Zero if streams are not threads, because then copies take no processor time from the
  // computing threads.
  virtual double processor_seconds(StreamId) const { return 0; }

 protected:
  const StreamOps ops_;
  WaitTimes waits_;
};

}  // namespace recollect
