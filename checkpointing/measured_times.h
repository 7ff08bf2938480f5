// What the ops of a step have taken, in place of what a device's model says of them.
#pragma once

#include <map>
#include <string>

#include "checkpointing/device_model.h"
#include "engine/graph/graph.h"
#include "engine/runtime/step_timeline.h"

namespace recollect {

struct MeasuredTimes {
  double launch_overhead = 0;                                 // no more than any op took
  std::map<std::string, double, std::less<>> multiples = {};  // as DeviceModel::measured
  bool operator==(const MeasuredTimes&) const = default;
};

// Of the first micro-batch and the optimizer, as far as both hold them; `predicted` by that device. A collective that
// stood for other ranks took no time of its own. What lies between two ops of the compute stream belongs to the second.
MeasuredTimes measured_times(const Graph& graph, const DeviceModel& device, const StepTimeline& predicted,
                             const StepTimeline& measured);

// The device as it was measured.
DeviceModel with_measured_times(DeviceModel device, const MeasuredTimes& times);

}  // namespace recollect
