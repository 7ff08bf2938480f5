#include "checkpointing/simulator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "engine/graph/op_def.h"

namespace recollect {

namespace {

double arithmetic_rate(const Graph& graph, const Op& op, const DeviceModel& device) {
  const std::string_view kind = op.def->name;
  const bool attention = kind.starts_with("attention");
  if (!attention && !kind.starts_with("linear") && kind != "lm_head_loss") return device.vector_flops;
  switch (graph.value(op.inputs.at(0)).dtype) {
    case DType::kF64:
      return device.gemm_f64;
    case DType::kBF16:
      return attention ? device.attention_bf16 : device.gemm_bf16;
    default:
      return attention ? device.attention_f32 : device.gemm_f32;
  }
}

double link_seconds(const Op& op, double link_bytes, const DeviceModel& device) {
  if (link_bytes == 0) return 0;
  if (op.stream == StreamId::kDeviceToHost) return link_bytes / device.to_host_bandwidth;
  if (op.stream == StreamId::kHostToDevice) return link_bytes / device.to_device_bandwidth;
  if (op.stream == StreamId::kDisk)
    return link_bytes /
           (op.def->name == "write_to_disk" ? device.disk_write_bandwidth : device.disk_read_bandwidth);
  return device.link_latency + link_bytes / device.link_bandwidth;
}

// No longer than a report may say, which is 36 years.
int64_t in_nanoseconds(double seconds) { return std::llround(std::min(1e9 * seconds, 0x1p60)); }

// Clocks of the streams while they run ops begin..end-1, all starting together.
class Clocks {
 public:
  Clocks(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
         Simulation& result)
      : graph_(graph),
        schedule_(schedule),
        durations_(durations),
        result_(result),
        finished_(durations.size()) {}

  // `times`, if any, is the place for this run in a timeline of the step.
  void run(OpId begin, OpId end, bool last_micro_batch, StepTimeline::Run* times) {
    std::array<double, kStreamCount> now{};
    const double run_begin = result_.step_seconds;
    const auto nanoseconds = [&](double seconds) { return in_nanoseconds(run_begin + seconds); };
    for (OpId id = begin; id < end; ++id) {
      const Op& op = graph_.op(id);
      double& clock = now[static_cast<int>(op.stream)];
      double start = clock;
      for (OpId before : schedule_.waits[id])
        if (before >= begin) start = std::max(start, finished_[before]);
      if (op.stream == StreamId::kCompute) result_.exposed_seconds[id] += start - clock;
      const bool runs = op.when == RunWhen::kAlways || last_micro_batch;
      const double finish = start + (runs ? durations_[id] : 0);
      if (runs) result_.busy_seconds[static_cast<int>(op.stream)] += durations_[id];
      if (runs && times)
        times->ops[static_cast<std::size_t>(id - begin)] = {nanoseconds(start), nanoseconds(finish),
                                                            nanoseconds(start) - nanoseconds(clock)};
      clock = finished_[id] = finish;
    }
    const double longest = *std::max_element(now.begin(), now.end());
    result_.tail_seconds += longest - now[static_cast<int>(StreamId::kCompute)];
    result_.step_seconds += longest;
    if (!times) return;
    times->begin = nanoseconds(0);
    times->end = nanoseconds(longest);
  }

 private:
  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<double>& durations_;
  Simulation& result_;
  std::vector<double> finished_;  // by op
};

}  // namespace

double Simulation::total_exposed_seconds() const {
  return std::accumulate(exposed_seconds.begin(), exposed_seconds.end(), tail_seconds);
}

double op_seconds(const Graph& graph, const Op& op, const DeviceModel& device) {
  const Cost cost = op.def->cost ? op.def->cost(OpView{graph, op}) : Cost{};
  const double here =
      std::max(cost.flops / arithmetic_rate(graph, op, device), cost.bytes / device.memory_bandwidth);
  return device.launch_overhead + std::max(here, link_seconds(op, cost.link_bytes, device));
}

Simulation simulate(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
                    int64_t micro_batches, StepTimeline* timeline) {
  const auto count = static_cast<OpId>(graph.ops().size());
  require(durations.size() == graph.ops().size(), "the simulator needs a duration for every op");
  Simulation result;
  result.exposed_seconds.assign(count, 0);
  OpId optimizer = 0;
  while (optimizer < count && graph.op(optimizer).phase != Phase::kOptimizer) ++optimizer;
  if (timeline) *timeline = StepTimeline::blank(graph, micro_batches);
  const auto place_of = [&](int64_t run) { return timeline ? timeline->find(run) : nullptr; };
  Clocks clocks(graph, schedule, durations, result);
  for (int64_t m = 0; m < micro_batches; ++m) clocks.run(0, optimizer, m + 1 == micro_batches, place_of(m));
  clocks.run(optimizer, count, true, place_of(StepTimeline::kOptimizer));
  if (timeline) timeline->end = in_nanoseconds(result.step_seconds);
  return result;
}

Simulation simulate(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                    int64_t micro_batches, StepTimeline* timeline) {
  std::vector<double> durations;
  for (const Op& op : graph.ops()) durations.push_back(op_seconds(graph, op, device));
  return simulate(graph, schedule, durations, micro_batches, timeline);
}

}  // namespace recollect
