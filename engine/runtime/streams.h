// What carries a program's ops: each is issued on its own stream, after the ops of other streams that the
// schedule says it waits for. There are two kinds: threads of this process, and the queues of a device.
#pragma once

#include <functional>
#include <vector>

#include "engine/runtime/kernel.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/wait_times.h"

namespace recollect {

// What streams are told of a program. The graph and the schedule must outlive them.
struct StreamOps {
  const Graph& graph;
  const Schedule& schedule;
  // Runs or enqueues one op. Of the arguments, streams give the state, where the device finds it, and the
  // native stream.
  std::function<void(OpId, const KernelArgs&)> run;
  // Around every op in turn, on its stream, whether it runs or is passed over: when its waits are over, and
  // before anybody may learn that it is done. Either both are given or none is.
  std::function<void(OpId)> before, after;
};

// When the ops of a run were on their streams, in seconds since it began. What an op that was passed over has
// here means nothing.
struct RunTimes {
  struct OpSpan {
    double begin = 0, end = 0;
  };
  double seconds = 0;  // of the whole run
  OpId first = 0;
  std::vector<OpSpan> ops = {};  // from `first` on
};

class Streams {
 public:
  explicit Streams(StreamOps ops) : ops_(std::move(ops)), waits_(ops_.graph) {}
  virtual ~Streams() = default;

  // Runs ops [begin, end). Returns when all streams are idle; an Error of any op is thrown here.
  virtual void run(OpId begin, OpId end, const RunState& state) = 0;

  // For streams that enqueue: `before` and `after` are called when an op is enqueued, and not at all when a
  // run is replayed. Whether the runs that follow take the times themselves; costs some events an op. Others
  // do nothing.
  virtual void time_ops(bool) {}
  // Of the latest run, if it took them.
  virtual const RunTimes* times() const { return nullptr; }

  // The device's own stream of that name, as kernels get it; null where streams are threads.
  virtual void* native(StreamId) { return nullptr; }
  // Returns when all that was put on that stream between runs is done.
  virtual void finish(StreamId) {}

  const WaitTimes& waits() const { return waits_; }

  // Seconds of processor time that the ops of a side stream have taken in training, summed over runs; to be
  // asked between runs. Zero where streams are no threads, and copies take nothing from whoever computes.
  virtual double processor_seconds(StreamId) const { return 0; }

 protected:
  const StreamOps ops_;
  WaitTimes waits_;
};

}  // namespace recollect
