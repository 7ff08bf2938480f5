// Times the ops of one step while an Executor runs it. All memory is taken when the recorder is made; every
// stream writes only the times of its own ops, so streams share nothing while they run. Outside of a recorded
// step an op costs one comparison.
#pragma once

#include <chrono>

#include "engine/runtime/executor.h"
#include "engine/runtime/step_timeline.h"

namespace recollect {

class StepRecorder final : public ExecutorProbe {
 public:
  // Of `graph` and of others with the same ops: a step in which another one runs is not recorded.
  // `next`, if any, is called as if it were the executor's own probe, and what it does counts as the op's.
  StepRecorder(const Graph& graph, int64_t micro_batches, ExecutorProbe* next = nullptr);

  // By whoever drives the executor, while that is idle. Between begin_step() and end_step() every run is
  // announced by begin_run(), with StepTimeline::kOptimizer for the optimizer's, and closed by end_run(); the
  // last one by end_step(). Outside of a step these do nothing.
  void begin_step(int64_t step = 0);
  void begin_run(Executor& executor, int64_t micro_batch);
  void end_run();
  void end_step();

  // For programs with the ops of this graph from now on. While nothing is recorded; takes memory.
  void restart(const Graph& graph);

  bool complete() const { return complete_; }                 // a step has been recorded
  int64_t step() const { return step_; }                      // the number that the latest one was begun with
  bool is_of(const Graph& graph) const;                       // whether it has these ops
  const StepTimeline& timeline() const { return timeline_; }  // of the latest such step

  void before_op(const Executor& executor, OpId id) override;
  void after_op(const Executor& executor, OpId id) override;

 private:
  using Clock = std::chrono::steady_clock;
  int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }

  void take(const RunTimes& times);
  int64_t waited(OpId id) const;  // since the run began

  ExecutorProbe* next_;
  Executor* executor_ = nullptr;  // of the run in progress
  StepTimeline timeline_;
  StepTimeline::Run* run_ = nullptr;   // the one in progress, if it is recorded
  std::vector<double> waited_before_;  // by op: the executor's waits at the run's beginning
  Clock::time_point start_;
  bool in_step_ = false, complete_ = false, other_ops_ = false;
  int64_t step_ = 0;
  std::size_t ops_;  // of the graph, as one number
};

}  // namespace recollect
