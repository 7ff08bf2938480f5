// A StepTimeline says when each op of one optimizer step ran, either measured by a StepRecorder or predicted
// by the simulator. Its size does not grow with the number of micro-batches: it keeps the first and the last,
// which represent all others, and the second if some ops run only in the first.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

// Times are nanoseconds since the step began.
struct OpTime {
  static constexpr int64_t kPassedOver = -1;
  int64_t begin = kPassedOver;  // when the op's waits have ended
  int64_t end = kPassedOver;
  int64_t waited = 0;  // how long, before `begin`, its stream waited for other streams
  int64_t stood = 0;   // how long, between `begin` and `end`, a collective waited for other ranks
  int whom = -1;       // the rank it waited for most
  bool ran() const { return begin >= 0; }
  bool operator==(const OpTime&) const = default;
};

struct StepTimeline {
  static constexpr int64_t kOptimizer = -1;  // stands in place of a micro-batch's number

  // One run of an executor: all streams are idle, then ops `first`, `first` + 1, ... run, then all streams
  // are idle again.
  struct Run {
    int64_t micro_batch = 0;  // 0-based, or kOptimizer
    OpId first = 0;
    int64_t begin = 0, end = 0;  // nanoseconds since the step began
    std::vector<OpTime> ops = {};
    bool operator==(const Run&) const = default;
  };

  int64_t micro_batches = 0;  // in the step
  int64_t end = 0;            // of the step
  std::vector<Run> runs = {};

  // Returns a timeline with the runs that are kept for a step of this graph, with room for every op and
  // nothing recorded.
  static StepTimeline blank(const Graph& graph, int64_t micro_batches);
  // Returns the run of that micro-batch, or null if it is not kept.
  Run* find(int64_t micro_batch);
  // Returns how many runs of the step this one represents. The last but one of the kept micro-batches
  // represents all those that are not kept.
  int64_t stands_for(const Run& run) const;
  bool operator==(const StepTimeline&) const = default;
};

// Combines several steps of the same program into one. Each op gets the median of its start within the run
// and the median of its duration; the ops of a stream stay in order. `streams`: by op.
StepTimeline median_of(const std::vector<StepTimeline>& steps, const std::vector<StreamId>& streams);

}  // namespace recollect
