// Predicted and measured times of steps, and of the waits of the compute stream for other streams, on one
// rank. No function here is collective.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/report/checked_json.h"
#include "launch/report/timeline.h"
#include "parallel/collective_meter.h"

namespace recollect {

struct StepReport {
  std::string device;                                          // the device model of the prediction
  double predicted = 0, measured = 0;                          // seconds of a step; measured: the median
  ExposedWaits predicted_exposed = {}, measured_exposed = {};  // measured: the mean
  int64_t steps = 0;                                           // 0: nothing was measured
  // Mean seconds of processor time that side streams took from kernels on the same cores, besides exposed
  // waits. Kernels were later by this time. Zeros if there are spare cores, and on a device whose copies use
  // no cores.
  std::array<double, kStreamCount> taken = {};
  double mean = 0;                                // measured seconds of a step
  std::vector<CollectiveTimes> collectives = {};  // measured means of a step

  // In the mean step, the waits for other ranks in collectives on the compute stream. Together with the
  // exposed waits and computing(), the rank's own work, this is the whole step.
  double waiting_for_peers() const;
  double waiting_on_any_stream() const;  // overlapped with compute or not
  double computing() const { return mean - waiting_for_peers() - measured_exposed.total(); }
  bool operator==(const StepReport&) const = default;
};

std::string step_text(const StepReport& report);  // empty if nothing was measured
nlohmann::ordered_json step_json(const StepReport& report);
StepReport read_step(const JsonPlace& json);

}  // namespace recollect
