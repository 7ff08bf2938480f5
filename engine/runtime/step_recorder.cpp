#include "engine/runtime/step_recorder.h"

#include <algorithm>
#include <functional>
#include <string>

namespace recollect {

namespace {

// A hash of the op names, which identifies a graph's list of ops.
std::size_t number_of_ops(const Graph& graph) {
  std::size_t number = graph.ops().size();
  for (const Op& op : graph.ops()) number = number * 31 + std::hash<std::string>()(op.name);
  return number;
}

}  // namespace

StepRecorder::StepRecorder(const Graph& graph, int64_t micro_batches, ExecutorProbe* next)
    : next_(next),
      timeline_(StepTimeline::blank(graph, micro_batches)),
      waited_before_(graph.ops().size(), 0.0),
      ops_(number_of_ops(graph)) {}

void StepRecorder::restart(const Graph& graph) {
  require(!in_step_, "a recorder is restarted within a step");
  timeline_ = StepTimeline::blank(graph, timeline_.micro_batches);
  waited_before_.assign(graph.ops().size(), 0.0);
  ops_ = number_of_ops(graph);
  complete_ = false;
}

bool StepRecorder::is_of(const Graph& graph) const { return number_of_ops(graph) == ops_; }

void StepRecorder::begin_step(int64_t step) {
  step_ = step;
  start_ = Clock::now();
  in_step_ = true;
  complete_ = other_ops_ = false;
}

void StepRecorder::begin_run(Executor& executor, int64_t micro_batch) {
  run_ = in_step_ ? timeline_.find(micro_batch) : nullptr;
  if (!run_) return;
  if (!is_of(executor.program().graph)) {
    other_ops_ = true;
    run_ = nullptr;
    return;
  }
  executor_ = &executor;
  executor.time_ops(true);
  std::copy(executor.waits().by_op().begin(), executor.waits().by_op().end(), waited_before_.begin());
  run_->begin = now();
}

void StepRecorder::end_run() {
  if (!run_) return;
  run_->end = now();
  if (const RunTimes* times = executor_->times()) take(*times);
  executor_->time_ops(false);
  run_ = nullptr;
}

// Maps device times to the host's clock: the ends of the run coincide, and the device began later than the
// host by the time of a launch.
void StepRecorder::take(const RunTimes& times) {
  const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(1e9 * seconds); };
  const int64_t begin = std::max(run_->begin, run_->end - nanoseconds(times.seconds));
  for (std::size_t i = 0; i < run_->ops.size(); ++i) {
    OpTime& time = run_->ops[i];
    if (!time.ran()) continue;
    const OpId id = run_->first + static_cast<OpId>(i);
    const RunTimes::OpSpan& span = times.ops[static_cast<std::size_t>(id - times.first)];
    time.begin = std::min(run_->end, begin + nanoseconds(span.begin));
    time.end = std::clamp(begin + nanoseconds(span.end), time.begin, run_->end);
    time.waited = waited(id);
  }
}

int64_t StepRecorder::waited(OpId id) const {
  return static_cast<int64_t>(1e9 * (executor_->waits().by_op()[id] - waited_before_[id]));
}

void StepRecorder::end_step() {
  if (!in_step_) return;
  end_run();
  timeline_.end = now();
  in_step_ = false;
  complete_ = !other_ops_;
}

void StepRecorder::before_op(const Executor& executor, OpId id) {
  if (StepTimeline::Run* run = run_) {
    OpTime& time = run->ops[static_cast<std::size_t>(id - run->first)];
    const Op& op = executor.program().graph.op(id);
    const RunState state{.micro_batch = run->micro_batch, .micro_batches = timeline_.micro_batches};
    if (run->micro_batch == StepTimeline::kOptimizer || state.runs(op.when)) {
      time.waited = waited(id);  // written by the executor on this very thread
      time.begin = now();
    }
  }
  if (next_) next_->before_op(executor, id);
}

void StepRecorder::after_op(const Executor& executor, OpId id) {
  if (next_) next_->after_op(executor, id);
  StepTimeline::Run* run = run_;
  if (!run) return;
  OpTime& time = run->ops[static_cast<std::size_t>(id - run->first)];
  if (!time.ran()) return;
  time.end = now();
  const Kernel::OutsideWait wait = executor.program().kernels[id]->outside_wait();
  time.stood = static_cast<int64_t>(1e9 * wait.seconds);
  time.whom = time.stood > 0 ? wait.whom : -1;
}

}  // namespace recollect
