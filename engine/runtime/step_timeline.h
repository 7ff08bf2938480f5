// When each op of one optimizer step ran: measured by a StepRecorder or predicted by the simulator, in one
// form. Of a step with many micro-batches it holds the first and the last, which all others are like, so that
// its size does not grow with them; and the second, where ops run in the first alone.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

// Nanoseconds since the step began.
struct OpTime {
  static constexpr int64_t kPassedOver = -1;
  int64_t begin = kPassedOver;  // its waits are over
  int64_t end = kPassedOver;
  int64_t waited = 0;  // of the time before `begin`: its stream stood for other streams
  int64_t stood = 0;   // of the time from `begin` to `end`: a collective stood for other ranks
  int whom = -1;       // for which most
  bool ran() const { return begin >= 0; }
  bool operator==(const OpTime&) const = default;
};

struct StepTimeline {
  static constexpr int64_t kOptimizer = -1;  // in place of a micro-batch

  // All streams idle, then ops `first`, `first` + 1, ..., then all streams idle again.
  struct Run {
    int64_t micro_batch = 0;  // 0-based, or kOptimizer
    OpId first = 0;
    int64_t begin = 0, end = 0;  // nanoseconds since the step began
    std::vector<OpTime> ops = {};
    bool operator==(const Run&) const = default;
  };

  int64_t micro_batches = 0;  // of the step
  int64_t end = 0;            // of the step
  std::vector<Run> runs = {};

  // The runs that are kept of a step of this graph, with room for every op and nothing recorded.
  static StepTimeline blank(const Graph& graph, int64_t micro_batches);
  // The run of that micro-batch, or null where it is not kept.
  Run* find(int64_t micro_batch);
  // How many runs of the step this one stands for: of the micro-batches that are kept, the last but one for all those that
  // are not.
  int64_t stands_for(const Run& run) const;
  bool operator==(const StepTimeline&) const = default;
};

// One step in place of several of the same program: of each op the median of when it began in its run and of how long it
// took, in the order of its stream. `streams`: by op.
StepTimeline median_of(const std::vector<StepTimeline>& steps, const std::vector<StreamId>& streams);

}  // namespace recollect
