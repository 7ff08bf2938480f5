// One step of one rank, independent of the program that it came from: its ops, the memory in use while they
// run, and their times, predicted and, once a step has been recorded, measured. Traces and pages are drawn
// only from this.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/simulator.h"
#include "engine/runtime/memory_profile.h"
#include "engine/runtime/program.h"
#include "engine/runtime/step_timeline.h"
#include "launch/report/op_class.h"

namespace recollect {

// The roofline of this machine as `recollect calibrate` measured it; zeros if the device model is a preset.
struct Roof {
  double flops = 0;      // FLOP/s of matrix products in the run's dtype
  double bandwidth = 0;  // bytes/s of memory
  // The shortest possible time of this much work.
  double seconds(double of_flops, double of_bytes) const {
    return flops > 0 && bandwidth > 0 ? std::max(of_flops / flops, of_bytes / bandwidth) : 0;
  }
  bool operator==(const Roof&) const = default;
};

struct Timeline {
  struct Op {
    std::string name, kind;
    int layer = -1;
    Phase phase = Phase::kForward;
    StreamId stream = StreamId::kCompute;
    bool recomputes = false;
    OpClass is = OpClass::kElementwise;
    uint64_t bytes = 0;       // written
    uint64_t flops = 0;       // a multiply and an add count two
    uint64_t touched = 0;     // bytes moved to and from memory
    std::vector<OpId> waits;  // ops of other streams
    bool operator==(const Op&) const = default;
  };
  std::vector<Op> ops;
  Roof roof;
  MemoryProfile memory;
  StepTimeline predicted;
  std::optional<StepTimeline> measured;
  int64_t step = 0;      // the measured step; the first is 1
  int64_t recorded = 1;  // number of steps up to that one; times are their medians
  double not_timed = 0;  // median seconds of the steps before, whose ops were not timed; 0 if the same
  bool operator==(const Timeline&) const = default;
};

// A timeline without measured times; `simulated` holds the predicted times.
Timeline make_timeline(const Program& program, const DeviceModel& device, StepTimeline simulated);

// Seconds in a step that the compute stream waited, by the stream that caused the wait. `joined` is the wait
// for other streams to finish at the ends of runs.
struct ExposedWaits {
  std::array<double, kStreamCount> by_stream{};
  double joined = 0;
  double total() const;
  bool operator==(const ExposedWaits&) const = default;
};
ExposedWaits exposed_waits(const std::vector<Timeline::Op>& ops, const StepTimeline& times);
// Seconds of recomputation in a step.
double recompute_seconds(const std::vector<Timeline::Op>& ops, const StepTimeline& times);

// The bytes in use from a tick on, by space and category.
using HeldBytes = std::array<MemoryLedger::Row, kMemorySpaceCount>;

// The time of each tick of a run in nanoseconds, from the times of its compute ops. Entry 0 is tick 2 *
// run.first. Times never decrease.
std::vector<int64_t> tick_times(const std::vector<Timeline::Op>& ops, const StepTimeline::Run& run);

// Calls `visit(tick, held)` for every tick at which something changes, in order, beginning with tick 0.
template <typename Visit>
void for_each_change(const MemoryProfile& profile, const Visit& visit) {
  HeldBytes held = profile.persistent;
  int64_t tick = 0;
  for (const MemoryChange& change : profile.changes) {
    if (change.tick != tick) visit(tick, held);
    tick = change.tick;
    held[static_cast<int>(change.space)][static_cast<int>(change.category)] +=
        static_cast<uint64_t>(change.bytes);
  }
  visit(tick, held);
}

}  // namespace recollect
