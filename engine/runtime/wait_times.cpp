#include "engine/runtime/wait_times.h"

#include <numeric>
#include <utility>

namespace recollect {

namespace {

std::vector<StreamId> streams_of(const Graph& graph) {
  std::vector<StreamId> streams;
  for (const Op& op : graph.ops()) streams.push_back(op.stream);
  return streams;
}

}  // namespace

WaitTimes::WaitTimes(const Graph& graph) : WaitTimes(streams_of(graph)) {}

WaitTimes::WaitTimes(std::vector<StreamId> streams)
    : streams_(std::move(streams)), by_op_(streams_.size(), 0.0), began_after_(streams_.size()) {}

void WaitTimes::begin_run() { held_up_.fill({}); }

void WaitTimes::waited(OpId waiter, OpId before, double start, double end, bool counts) {
  if (counts) by_op_[waiter] += end - start;
  if (streams_[waiter] != StreamId::kCompute)
    held_up_[stream_of(waiter)] = {end, before};
  else if (counts)
    expose(before, start, end);
}

// The compute stream waited from `start` to `end` for op `before`. For the part of that time in which the
// op's own stream waited for a third stream, the third stream is charged, and so on.
void WaitTimes::expose(OpId before, double start, double end) {
  double& seconds = exposed_[stream_of(before)];
  const HeldUp& cause = began_after_[before];
  if (cause.until <= start || streams_[cause.by] == StreamId::kCompute) {
    seconds += end - start;
    return;
  }
  seconds += end - cause.until;
  expose(cause.by, start, cause.until);
}

double WaitTimes::total_exposed() const { return std::accumulate(exposed_.begin(), exposed_.end(), join_); }

}  // namespace recollect
