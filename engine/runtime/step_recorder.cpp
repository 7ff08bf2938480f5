#include "engine/runtime/step_recorder.h"

#include <algorithm>

namespace recollect {

StepRecorder::StepRecorder(const Graph& graph, int64_t micro_batches, ExecutorProbe* next)
    : next_(next),
      timeline_(StepTimeline::blank(graph, micro_batches)),
      waited_before_(graph.ops().size(), 0.0) {}

void StepRecorder::begin_step() {
  start_ = Clock::now();
  in_step_ = true;
  complete_ = false;
}

void StepRecorder::begin_run(const Executor& executor, int64_t micro_batch) {
  run_ = in_step_ ? timeline_.find(micro_batch) : nullptr;
  if (!run_) return;
  std::copy(executor.waits().by_op().begin(), executor.waits().by_op().end(), waited_before_.begin());
  run_->begin = now();
}

void StepRecorder::end_run() {
  if (run_) run_->end = now();
  run_ = nullptr;
}

void StepRecorder::end_step() {
  if (!in_step_) return;
  end_run();
  timeline_.end = now();
  in_step_ = false;
  complete_ = true;
}

void StepRecorder::before_op(const Executor& executor, OpId id) {
  if (StepTimeline::Run* run = run_) {
    OpTime& time = run->ops[static_cast<std::size_t>(id - run->first)];
    const Op& op = executor.program().graph.op(id);
    const bool last = run->micro_batch < 0 || run->micro_batch + 1 == timeline_.micro_batches;
    if (op.when == RunWhen::kAlways || last) {
      // The executor writes the waits of an op on this very thread.
      const double waited = executor.waits().by_op()[id] - waited_before_[id];
      time.waited = static_cast<int64_t>(1e9 * waited);
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
  if (time.ran()) time.end = now();
}

}  // namespace recollect
