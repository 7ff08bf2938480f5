// Runs a Program. Reserves its arena once; running a step allocates nothing and decides nothing. The compute
// stream is the calling thread; every other stream that the program uses is a worker thread of its own, so a
// wait that is missing from the schedule is a data race that ThreadSanitizer can see.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/arena.h"
#include "engine/runtime/program.h"

namespace recollect {

class Executor;

// Watches an Executor from outside, for tests that disturb it. Each call comes on the thread of the op's
// stream, for every op in turn, whether it runs or is passed over: `before_op` when its waits are over,
// `after_op` before anybody may learn that it is done.
class ExecutorProbe {
 public:
  virtual ~ExecutorProbe() = default;
  virtual void before_op(const Executor&, OpId) {}
  virtual void after_op(const Executor&, OpId) {}
};

class Executor {
 public:
  // `probe`, if any, must outlive the executor.
  explicit Executor(Program program, ExecutorProbe* probe = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Forward and backward of one micro-batch: every op before the optimizer phase. Returns when all streams
  // are idle; an Error of any op is thrown here.
  void run_micro_batch(const RunState& state);
  // Of forward, the ops that lead to what outlives it, such as the loss: an evaluation's micro-batch, for a
  // state whose `training` is false. What forward stores for backward is left out. Its waits do not count in
  // the sums below.
  void run_forward(const RunState& state);
  // The optimizer phase, once per step.
  void run_optimizer(const RunState& state);

  Tensor tensor(ValueId value) const;
  const Program& program() const { return program_; }

  // What the kernels that have run were really handed: the same ledger, from operands instead of from the
  // plan. Throws kInternal if two blocks that live at the same time overlap.
  MemoryLedger measured() const;

  // Runs a micro-batch op by op on the calling thread and returns the name of the first value, in program
  // order, that holds an infinity or a NaN; empty if there is none. Gradients are garbage afterwards.
  std::string find_non_finite(const RunState& state);

  // Seconds that each op's stream has spent waiting for other streams on its behalf, summed over runs.
  std::span<const double> wait_seconds() const { return wait_seconds_; }
  // Of those, what the compute stream waited because another one was not ready, which is the one that was
  // really late: a copy that could not begin because of the disk is the disk's doing. And for all of them at
  // the end of runs. Together they are the compute stream's idle time.
  double exposed_seconds(StreamId stream) const { return exposed_seconds_[static_cast<int>(stream)]; }
  double join_seconds() const { return join_seconds_; }
  double total_exposed_seconds() const;

 private:
  struct BoundOp {
    std::vector<Tensor> in, out;
    std::byte* workspace = nullptr;
  };
  struct Worker {
    StreamId stream;
    std::thread thread;
  };
  using Time = std::chrono::steady_clock::time_point;
  // The last time that a stream had to wait in this run: until when, and for which op.
  struct HeldUp {
    Time until{};
    OpId by = kNone;
  };

  void run(OpId begin, OpId end, const RunState& state);
  void run_stream(StreamId stream, OpId begin, OpId end, const RunState& state);
  void run_op(OpId id, const RunState& state);
  void wait_for(OpId before, OpId waiter, bool counts);
  void expose(OpId before, Time start, Time end);
  const Arena& arena_of(MemorySpace space) const {
    return space == MemorySpace::kDevice ? arena_ : host_arena_;
  }
  void fail(std::exception_ptr error);
  void worker_loop(StreamId stream);

  Program program_;
  ExecutorProbe* probe_;
  Arena arena_, host_arena_;
  OpId forward_end_ = 0, optimizer_begin_ = 0;
  std::vector<char> leads_on_;                  // by op of forward: does it lead to what outlives it?
  std::vector<BoundOp> bound_;                  // by op
  std::vector<char> executed_;                  // by op: has it ever run?
  std::vector<std::atomic<uint32_t>> done_;     // by op: the run in which it last finished
  std::vector<double> wait_seconds_;            // by op; written by the op's own stream
  std::vector<HeldUp> began_after_;             // by op: what its stream had last waited for when it began
  std::array<HeldUp, kStreamCount> held_up_{};  // each written by its own stream
  std::array<double, kStreamCount> exposed_seconds_{};  // written by the compute stream
  double join_seconds_ = 0;
  std::vector<Worker> workers_;

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  uint32_t run_ = 0;  // number of the current run
  int busy_ = 0;      // workers that have not finished it
  OpId begin_ = 0, end_ = 0;
  const RunState* state_ = nullptr;
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace recollect
