#include "checkpointing/measured_times.h"

#include <algorithm>

#include "checkpointing/op_time.h"

namespace recollect {

namespace {

struct Ops {
  double count = 0, seconds = 0;
  double mean() const { return seconds / count; }
};
using ByKind = std::map<std::string, Ops>;

void add_run(const Graph& graph, const StepTimeline::Run& run, ByKind& ops) {
  int64_t before = run.begin;  // when the compute stream's last op was done
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const OpTime& time = run.ops[i];
    if (!time.ran()) continue;
    const Op& op = graph.op(run.first + static_cast<OpId>(i));
    int64_t took = time.end - time.begin - time.stood;
    if (op.stream == StreamId::kCompute) {
      took += std::max<int64_t>(0, time.begin - time.waited - before);
      before = time.end;
    }
    Ops& kind = ops[kernel_use({graph, op}).key];
    kind.seconds += 1e-9 * static_cast<double>(std::max<int64_t>(0, took));
    ++kind.count;
  }
}

bool has_run(const StepTimeline::Run& run) {
  return std::any_of(run.ops.begin(), run.ops.end(), [](const OpTime& time) { return time.ran(); });
}

}  // namespace

MeasuredTimes measured_times(const Graph& graph, const DeviceModel& device, const StepTimeline& predicted,
                             const StepTimeline& measured) {
  ByKind said, took;
  for (const StepTimeline::Run& run : measured.runs) {
    const bool counts = run.micro_batch == 0 || run.micro_batch == StepTimeline::kOptimizer;
    if (!counts || !has_run(run)) continue;
    const auto alike =
        std::find_if(predicted.runs.begin(), predicted.runs.end(),
                     [&](const StepTimeline::Run& other) { return other.micro_batch == run.micro_batch; });
    add_run(graph, run, took);
    add_run(graph, *alike, said);
  }
  MeasuredTimes times{.launch_overhead = device.launch_overhead};
  for (const auto& [kind, ops] : took) times.launch_overhead = std::min(times.launch_overhead, ops.mean());
  for (const auto& [kind, ops] : took)
    if (const double work = said[kind].mean() - device.launch_overhead; work > 0)
      times.multiples[kind] = (ops.mean() - times.launch_overhead) / work;
  return times;
}

DeviceModel with_measured_times(DeviceModel device, const MeasuredTimes& times) {
  device.name += ", as measured";
  device.launch_overhead = times.launch_overhead;
  device.measured = times.multiples;
  return device;
}

}  // namespace recollect
