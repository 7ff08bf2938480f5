// Runs a program's list of ops on clocks instead of kernels: streams in order and beside each other, waits as
// the schedule says, and, as in the executor, all streams idle between two micro-batches and before the
// optimizer. A device's copy engines slow nothing down. Threads that copy on the cores where others compute
// do: a kernel divides its work evenly, so it is as late as the last of its threads.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "checkpointing/op_time.h"
#include "engine/graph/graph.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/step_timeline.h"

namespace recollect {

struct Simulation {
  double step_seconds = 0;
  double optimizer_seconds = 0;  // of them, behind the last micro-batch
  std::array<double, kStreamCount> busy_seconds{};
  // By op of the compute stream: how long it stood waiting for other streams.
  std::vector<double> exposed_seconds;
  // The compute stream has finished a micro-batch or the step and other streams have not.
  double tail_seconds = 0;
  double total_exposed_seconds() const;  // the compute stream's idle time: busy + exposed = step
};

// One optimizer step of `micro_batches` micro-batches. Where `timeline` is given, it becomes the step's.
Simulation simulate(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                    int64_t micro_batches, StepTimeline* timeline = nullptr);

// The cores of a rank: so many threads compute on theirs, and side streams have so many beside them.
struct Cores {
  double computing = 1;
  double spare = std::numeric_limits<double>::infinity();
};

// The same with durations given by whoever asks, one for each op: what it takes alone.
Simulation simulate(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
                    int64_t micro_batches, StepTimeline* timeline = nullptr, const Cores& cores = {});

}  // namespace recollect
