#include "launch/report/timeline.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/graph/op_def.h"
#include "engine/runtime/wait_times.h"

namespace recollect {

namespace {

double seconds(int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); }

// The op that ended last among those that `op` waits for.
OpId last_done(const Timeline::Op& op, const StepTimeline::Run& run) {
  OpId last = kNone;
  const auto time_of = [&](OpId id) { return run.ops[id - run.first]; };
  for (OpId before : op.waits)
    if (before >= run.first && time_of(before).ran() &&
        (last == kNone || time_of(before).end > time_of(last).end))
      last = before;
  return last;
}

// Attributes the waits of one run to the streams that caused them.
WaitTimes waits_of(const std::vector<Timeline::Op>& ops, const StepTimeline::Run& run) {
  std::vector<StreamId> streams;
  for (const Timeline::Op& op : ops) streams.push_back(op.stream);
  WaitTimes waits(std::move(streams));
  waits.begin_run();
  int64_t compute_end = run.begin;
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const OpTime& time = run.ops[i];
    const OpId id = run.first + static_cast<OpId>(i);
    const OpId cause = time.ran() && time.waited > 0 ? last_done(ops[id], run) : kNone;
    if (cause != kNone) waits.waited(id, cause, seconds(time.begin - time.waited), seconds(time.begin), true);
    waits.begins(id);
    if (time.ran() && ops[id].stream == StreamId::kCompute) compute_end = time.end;
  }
  waits.joined(seconds(run.end - compute_end));
  return waits;
}

uint64_t whole(double amount) { return static_cast<uint64_t>(std::clamp(amount, 0.0, 1e18)); }

// The roofline for the dtype of most matrix products.
Roof roof_of(const Graph& graph, const DeviceModel& device) {
  if (is_preset(device) || device.name == kRatesOfMachine) return {};
  std::map<DType, double> flops;
  for (const OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.def->unit != Unit::kGemm || !op.def->cost || op.inputs.empty()) continue;
    const OpView view{graph, op};
    flops[view.in(0).dtype] += op.def->cost(view).flops;
  }
  if (flops.empty()) return {};
  const auto most = std::max_element(flops.begin(), flops.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return {.flops = gemm_rate(device, most->first), .bandwidth = device.memory_bandwidth};
}

}  // namespace

Timeline make_timeline(const Program& program, const DeviceModel& device, StepTimeline simulated) {
  const Graph& graph = program.graph;
  Timeline timeline{.ops = {},
                    .roof = roof_of(graph, device),
                    .memory = memory_profile(program),
                    .predicted = std::move(simulated),
                    .measured = {}};
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    uint64_t bytes = 0;
    for (ValueId v : op.outputs)
      if (v != kNone) bytes += graph.value(v).bytes();
    const Cost cost = op.def->cost ? op.def->cost(OpView{graph, op}) : Cost{};
    timeline.ops.push_back({.name = op.name,
                            .kind = op.def->name,
                            .layer = op.layer,
                            .phase = op.phase,
                            .stream = op.stream,
                            .recomputes = op.role == Role::kRecompute,
                            .is = class_of(op),
                            .bytes = bytes,
                            .flops = whole(cost.flops),
                            .touched = whole(cost.bytes),
                            .waits = program.schedule.waits[id]});
  }
  return timeline;
}

std::vector<int64_t> tick_times(const std::vector<Timeline::Op>& ops, const StepTimeline::Run& run) {
  std::vector<int64_t> times;
  int64_t now = run.begin;
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const bool counts = run.ops[i].ran() && ops[run.first + i].stream == StreamId::kCompute;
    times.push_back(counts ? run.ops[i].begin : now);
    if (counts) now = run.ops[i].end;
    times.push_back(now);
  }
  return times;
}

double ExposedWaits::total() const { return std::accumulate(by_stream.begin(), by_stream.end(), joined); }

ExposedWaits exposed_waits(const std::vector<Timeline::Op>& ops, const StepTimeline& times) {
  ExposedWaits sum;
  for (const StepTimeline::Run& run : times.runs) {
    const WaitTimes waits = waits_of(ops, run);
    const auto alike = static_cast<double>(times.stands_for(run));
    for (int s = 0; s < kStreamCount; ++s)
      sum.by_stream[static_cast<std::size_t>(s)] += alike * waits.exposed(static_cast<StreamId>(s));
    sum.joined += alike * waits.join();
  }
  return sum;
}

double recompute_seconds(const std::vector<Timeline::Op>& ops, const StepTimeline& times) {
  double sum = 0;
  for (const StepTimeline::Run& run : times.runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i)
      if (run.ops[i].ran() && ops[run.first + i].recomputes)
        sum += seconds((run.ops[i].end - run.ops[i].begin) * times.stands_for(run));
  return sum;
}

}  // namespace recollect
