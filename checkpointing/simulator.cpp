#include "checkpointing/simulator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/runtime/kernel.h"

namespace recollect {

namespace {

// No longer than a report may say, which is 36 years.
int64_t in_nanoseconds(double seconds) { return std::llround(std::min(1e9 * seconds, 0x1p60)); }

// Clocks of the streams while they run ops begin..end-1, all starting together. An op that is running ends at
// a time that moves when the streams begin or cease to compete for cores.
class Clocks {
 public:
  Clocks(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
         const Cores& cores, Simulation& result)
      : graph_(graph),
        schedule_(schedule),
        durations_(durations),
        cores_(cores),
        result_(result),
        finished_(durations.size(), kNever) {
    for (OpId id = 0; id < static_cast<OpId>(durations.size()); ++id)
      queues_[static_cast<std::size_t>(graph.op(id).stream)].ops.push_back(id);
  }

  // `times`, if any, is the place for this run in a timeline of the step.
  void run(OpId begin, OpId end, const RunState& state, StepTimeline::Run* times) {
    begin_ = begin;
    end_ = end;
    state_ = state;
    times_ = times;
    run_begin_ = result_.step_seconds;
    for (Queue& queue : queues_) {
      queue.next = static_cast<std::size_t>(std::lower_bound(queue.ops.begin(), queue.ops.end(), begin) -
                                            queue.ops.begin());
      queue.running = kNone;
      queue.clock = 0;
    }
    std::fill(finished_.begin() + begin, finished_.begin() + end, kNever);
    double now = 0;
    do start_what_can(now);
    while (finish_the_next(now));
    const double compute_end = queues_[static_cast<std::size_t>(StreamId::kCompute)].clock;
    result_.tail_seconds += now - compute_end;
    result_.step_seconds += now;
    if (!times) return;
    times->begin = nanoseconds(0);
    times->end = nanoseconds(now);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Queue {
    std::vector<OpId> ops;
    std::size_t next = 0;
    OpId running = kNone;
    double start = 0, finish = 0;  // of the running op
    double clock = 0;              // when the last one was done
  };

  int64_t nanoseconds(double seconds) const { return in_nanoseconds(run_begin_ + seconds); }
  bool runs(OpId id) const { return state_.runs(graph_.op(id).when); }

  bool ready(OpId id, double now) const {
    const std::vector<OpId>& waits = schedule_.waits[id];
    return std::all_of(waits.begin(), waits.end(),
                       [&](OpId before) { return before < begin_ || finished_[before] <= now; });
  }

  // What is passed over is done at once, and others may wait for it: until nothing more begins.
  void start_what_can(double now) {
    const double before = slowness();
    for (bool more = true; more;) {
      more = false;
      for (Queue& queue : queues_)
        while (queue.running == kNone && queue.next < queue.ops.size() && queue.ops[queue.next] < end_ &&
               ready(queue.ops[queue.next], now)) {
          begin_op(queue, now, before);
          more = true;
        }
    }
    stretch(now, before);
  }

  void begin_op(Queue& queue, double now, double slow) {
    const OpId id = queue.ops[queue.next++];
    if (graph_.op(id).stream == StreamId::kCompute) result_.exposed_seconds[id] += now - queue.clock;
    if (!runs(id)) {
      finished_[id] = queue.clock = now;
      return;
    }
    queue.running = id;
    queue.start = now;
    queue.finish = now + durations_[id] * (competes(queue) ? slow : 1);  // until stretch() has looked
    if (times_)
      times_->ops[static_cast<std::size_t>(id - begin_)] = {nanoseconds(now), 0,
                                                            nanoseconds(now) - nanoseconds(queue.clock)};
  }

  bool finish_the_next(double& now) {
    Queue* first = nullptr;
    for (Queue& queue : queues_)
      if (queue.running != kNone && (!first || queue.finish < first->finish)) first = &queue;
    if (!first) return false;
    const double before = slowness();
    now = first->finish;
    const OpId id = first->running;
    first->running = kNone;
    first->clock = finished_[id] = now;
    result_.busy_seconds[static_cast<std::size_t>(graph_.op(id).stream)] += now - first->start;
    if (times_) times_->ops[static_cast<std::size_t>(id - begin_)].end = nanoseconds(now);
    stretch(now, before);
    return true;
  }

  // By how much ops take longer than alone. A thread without a core of its own takes turns with one that
  // computes, and all other threads of its kernel wait for that one. What writes and reads the disk sleeps.
  double slowness() const {
    if (queues_[static_cast<std::size_t>(StreamId::kCompute)].running == kNone) return 1;
    double beside = -1;
    for (const Queue& queue : queues_) beside += competes(queue) ? 1 : 0;
    const double without = std::max(0.0, beside - cores_.spare);
    return 1 + std::ceil(without / cores_.computing);
  }

  bool competes(const Queue& queue) const {
    return queue.running != kNone && graph_.op(queue.running).stream != StreamId::kDisk;
  }

  void stretch(double now, double before) {
    const double factor = slowness() / before;
    if (factor == 1) return;
    for (Queue& queue : queues_)
      if (competes(queue)) queue.finish = now + (queue.finish - now) * factor;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<double>& durations_;
  const Cores cores_;
  Simulation& result_;
  std::vector<double> finished_;  // by op
  std::array<Queue, kStreamCount> queues_;
  OpId begin_ = 0, end_ = 0;
  RunState state_;
  StepTimeline::Run* times_ = nullptr;
  double run_begin_ = 0;  // seconds of the step
};

}  // namespace

double Simulation::total_exposed_seconds() const {
  return std::accumulate(exposed_seconds.begin(), exposed_seconds.end(), tail_seconds);
}

Simulation simulate(const Graph& graph, const Schedule& schedule, const std::vector<double>& durations,
                    int64_t micro_batches, StepTimeline* timeline, const Cores& cores) {
  const auto count = static_cast<OpId>(graph.ops().size());
  require(durations.size() == graph.ops().size(), "the simulator needs a duration for every op");
  Simulation result;
  result.exposed_seconds.assign(count, 0);
  OpId optimizer = 0;
  while (optimizer < count && graph.op(optimizer).phase != Phase::kOptimizer) ++optimizer;
  if (timeline) *timeline = StepTimeline::blank(graph, micro_batches);
  const auto place_of = [&](int64_t run) { return timeline ? timeline->find(run) : nullptr; };
  Clocks clocks(graph, schedule, durations, cores, result);
  RunState state{.micro_batches = micro_batches};
  for (; state.micro_batch < micro_batches; ++state.micro_batch)
    clocks.run(0, optimizer, state, place_of(state.micro_batch));
  const double micro_batches_end = result.step_seconds;
  clocks.run(optimizer, count, state, place_of(StepTimeline::kOptimizer));
  result.optimizer_seconds = result.step_seconds - micro_batches_end;
  if (timeline) timeline->end = in_nanoseconds(result.step_seconds);
  return result;
}

Simulation simulate(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                    int64_t micro_batches, StepTimeline* timeline) {
  const Cores cores{std::max(1.0, static_cast<double>(device.threads)), device.spare_cores};
  return simulate(graph, schedule, op_durations(graph, device), micro_batches, timeline, cores);
}

}  // namespace recollect
