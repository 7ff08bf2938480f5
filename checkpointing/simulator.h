// Runs a program's list of ops on clocks instead of kernels: streams in order and beside each other, waits as
// the schedule says, and, as in the executor, all streams idle between two micro-batches and before the
// optimizer. Streams are taken not to slow each other down, which is true of a GPU's copy engines and nearly
// true of idle cores.
#pragma once

#include <array>
#include <vector>

#include "checkpointing/device_model.h"
#include "engine/graph/graph.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/step_timeline.h"

namespace recollect {

struct Simulation {
  double step_seconds = 0;
  std::array<double, kStreamCount> busy_seconds{};
  // By op of the compute stream: how long it stood waiting for other streams.
  std::vector<double> exposed_seconds;
  // The compute stream has finished a micro-batch or the step and other streams have not.
  double tail_seconds = 0;
  double total_exposed_seconds() const;  // the compute stream's idle time: busy + exposed = step
};

// Seconds that an op takes alone: the longer of arithmetic and memory traffic; where the bytes cross a link,
// no less than the link takes; and the overhead of starting it.
double op_seconds(const Graph& graph, const Op& op, const DeviceModel& device);

// One optimizer step of `micro_batches` micro-batches. Where `timeline` is given, it becomes the step's.
Simulation simulate(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                    int64_t micro_batches, StepTimeline* timeline = nullptr);

// The same with durations given by whoever asks, one for each op.
Simulation simulate(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
                    int64_t micro_batches, StepTimeline* timeline = nullptr);

}  // namespace recollect
