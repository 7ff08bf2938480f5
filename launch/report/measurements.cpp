#include "launch/report/measurements.h"

#include <algorithm>

#include "launch/ranks/world.h"

namespace recollect {

double StepTimes::median() const {
  std::array<double, std::tuple_size_v<decltype(seconds_)>> sorted = seconds_;
  const auto count =
      static_cast<std::ptrdiff_t>(std::min<int64_t>(kept_, static_cast<int64_t>(sorted.size())));
  if (count == 0) return 0;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  const double upper = sorted[static_cast<std::size_t>(count / 2)];
  if (count % 2) return upper;
  return (*std::max_element(sorted.begin(), sorted.begin() + count / 2) + upper) / 2;
}

namespace {

// Sums a number over the executors of all programs.
template <typename Of>
double sum_over(const ProgramCache& programs, const Of& of) {
  double sum = 0;
  for (const auto& [shape, ready] : programs.all()) sum += of(*ready.executor);
  for (const ReadyProgram& ready : programs.retired()) sum += of(*ready.executor);
  return sum;
}

// The waits of updates for prefetched states, which are their only waits, and the waits for updates on the
// host.
double waits_of_updates(const Executor& executor) {
  const Graph& graph = executor.program().graph;
  const auto is_fetched = [&](ValueId v) {
    const OpId by = v == kNone ? kNone : graph.value(v).producer;
    return by != kNone && graph.op(by).def->name == "fetch_state";
  };
  double sum = 0;
  for (const OpId id : graph.op_ids())
    if (const Op& op = graph.op(id);
        op.stream == StreamId::kCompute && op.phase == Phase::kOptimizer &&
        (op.def->name == "await_updates" || std::any_of(op.outputs.begin(), op.outputs.end(), is_fetched)))
      sum += executor.waits().by_op()[static_cast<std::size_t>(id)];
  return sum;
}

}  // namespace

double exposed_seconds(const ProgramCache& programs, StreamId stream) {
  return sum_over(programs, [&](const Executor& executor) { return executor.waits().exposed(stream); });
}

double exposed_seconds_of_states(const ProgramCache& programs) {
  return sum_over(programs, waits_of_updates);
}

double joined_seconds(const ProgramCache& programs) {
  return sum_over(programs, [](const Executor& executor) { return executor.waits().join(); });
}

void add_measurement(const Config& config, const Measurements& measured, StepReport& report) {
  const StepTimes& times = measured.times;
  report.steps = times.steps();
  report.measured = times.median();
  if (report.steps == 0) return;
  const auto steps = static_cast<double>(report.steps);
  for (int s = 0; s < kStreamCount; ++s)
    report.measured_exposed.by_stream[s] =
        exposed_seconds(measured.programs, static_cast<StreamId>(s)) / steps;
  report.measured_exposed.joined = joined_seconds(measured.programs) / steps;
  report.mean = times.mean();
  report.collectives = measured.collectives;
  for (CollectiveTimes& c : report.collectives) {
    c.transfer /= steps;
    c.waiting /= steps;
    for (auto& [rank, seconds] : c.for_ranks) seconds /= steps;
  }
  if (has_spare_cores(config, measured.mesh.world().size())) return;
  for (int s = 0; s < kStreamCount; ++s) {
    const double taken = sum_over(measured.programs, [&](const Executor& executor) {
      return executor.processor_seconds(static_cast<StreamId>(s));
    });
    report.taken[s] = std::max(0.0, taken / steps - report.measured_exposed.by_stream[s]);
  }
}

}  // namespace recollect
