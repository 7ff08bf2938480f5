// StepRecorder measures when each op of one step runs in an Executor. All memory is allocated when the
// recorder is made. Each stream writes only the times of its own ops, so streams share nothing while they
// run. Outside a recorded step an op costs one comparison.
#pragma once

#include <chrono>

#include "engine/runtime/executor.h"
#include "engine/runtime/step_timeline.h"

namespace recollect {

class StepRecorder final : public ExecutorProbe {
 public:
  // Records programs with the ops of `graph`; a step in which a program with other ops runs is not recorded.
  // `next`, if given, is called as if it were the executor's own probe, and its time counts as the op's.
  StepRecorder(const Graph& graph, int64_t micro_batches, ExecutorProbe* next = nullptr);

  // Called by the code that drives the executor, while the executor is idle. Between begin_step() and
  // end_step() every run starts with begin_run(), with StepTimeline::kOptimizer for the optimizer's run, and
  // ends with end_run(); end_step() also ends the last one. Outside a step these functions do nothing.
  void begin_step(int64_t step = 0);
  void begin_run(Executor& executor, int64_t micro_batch);
  void end_run();
  void end_step();

  // Records programs with the ops of this graph from now on. Call it only between recorded steps; it
  // allocates.
  void restart(const Graph& graph);

  bool complete() const { return complete_; }                 // a step has been recorded
  int64_t step() const { return step_; }                      // the number given to the latest begin_step()
  bool is_of(const Graph& graph) const;                       // true if the graph has the recorded ops
  const StepTimeline& timeline() const { return timeline_; }  // of the latest recorded step

  void before_op(const Executor& executor, OpId id) override;
  void after_op(const Executor& executor, OpId id) override;

 private:
  using Clock = std::chrono::steady_clock;
  int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }

  void take(const RunTimes& times);
  int64_t waited(OpId id) const;  // nanoseconds since the run began

  ExecutorProbe* next_;
  Executor* executor_ = nullptr;  // the executor of the run in progress
  StepTimeline timeline_;
  StepTimeline::Run* run_ = nullptr;   // the run in progress, if it is recorded
  std::vector<double> waited_before_;  // by op: its total wait when the run began
  Clock::time_point start_;
  bool in_step_ = false, complete_ = false, other_ops_ = false;
  int64_t step_ = 0;
  std::size_t ops_;  // a hash of the graph's op names
};

}  // namespace recollect
