// One step of one rank, free of the program that it came from: its ops, what memory holds while they run, and
// when they run, as predicted and, once a step has been recorded, as measured. All that a trace and a page
// draw.
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

// What this machine can do at most, as `recollect calibrate` has measured it; zeros where a preset is reckoned with.
struct Roof {
  double flops = 0;      // FLOP/s of matrix products in the run's dtype
  double bandwidth = 0;  // bytes/s of memory
  // Seconds that so much takes at least.
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
    uint64_t bytes = 0;       // that it writes
    uint64_t flops = 0;       // a multiply and an add count two
    uint64_t touched = 0;     // bytes that it moves to and from memory
    std::vector<OpId> waits;  // of other streams
    bool operator==(const Op&) const = default;
  };
  std::vector<Op> ops;
  Roof roof;
  MemoryProfile memory;
  StepTimeline predicted;
  std::optional<StepTimeline> measured;
  int64_t step = 0;      // the one that was measured; the first is 1
  int64_t recorded = 1;  // steps up to that one, of which it has the medians
  double not_timed =
      0;  // seconds of a step before them, the median, whose ops were not timed; 0 where that is alike
  bool operator==(const Timeline&) const = default;
};

// Without a measurement. The times predicted are those of `simulated`.
Timeline make_timeline(const Program& program, const DeviceModel& device, StepTimeline simulated);

// Of a step, in seconds: what the compute stream waited, by the stream that was really late. `joined`: for
// other streams to finish, at the ends of the runs.
struct ExposedWaits {
  std::array<double, kStreamCount> by_stream{};
  double joined = 0;
  double total() const;
  bool operator==(const ExposedWaits&) const = default;
};
ExposedWaits exposed_waits(const std::vector<Timeline::Op>& ops, const StepTimeline& times);
// Seconds that recomputation runs in a step.
double recompute_seconds(const std::vector<Timeline::Op>& ops, const StepTimeline& times);

// What is held at a tick and from then on, by space and category.
using HeldBytes = std::array<MemoryLedger::Row, kMemorySpaceCount>;

// When each tick of a run comes, in nanoseconds, from the times of its compute ops: entry 0 is tick
// 2 * run.first. Never decreases.
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
