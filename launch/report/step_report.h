// How long steps were predicted to take and how long they took; likewise the time in which the compute stream
// stood waiting for the others. Of one rank, and never a collective.
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
  std::string device;                                          // whose model predicts
  double predicted = 0, measured = 0;                          // seconds of a step; measured: the median
  ExposedWaits predicted_exposed = {}, measured_exposed = {};  // measured: the mean
  int64_t steps = 0;                                           // 0: nothing was measured
  // Mean seconds of processor time that side streams took beside what was exposed, on cores that compute: by
  // so much kernels were late. Zeros where there are cores to spare, and on a device whose copies take none.
  std::array<double, kStreamCount> taken = {};
  double mean = 0;                                // seconds of a step, measured
  std::vector<CollectiveTimes> collectives = {};  // of a step, measured: the mean

  // Of the mean step: the compute stream stood for other ranks, in collectives of its own. With exposed waits
  // and what is left, in which this rank itself works, that is the whole step.
  double waiting_for_peers() const;
  double waiting_on_any_stream() const;  // hidden behind compute or not
  double computing() const { return mean - waiting_for_peers() - measured_exposed.total(); }
  bool operator==(const StepReport&) const = default;
};

std::string step_text(const StepReport& report);  // empty where nothing was measured
nlohmann::ordered_json step_json(const StepReport& report);
StepReport read_step(const JsonPlace& json);

}  // namespace recollect
