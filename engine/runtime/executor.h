// Runs a Program on a device. Reserves its arenas once; running a step allocates nothing and decides nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/arena.h"
#include "engine/runtime/device.h"
#include "engine/runtime/program.h"

namespace recollect {

class Executor;

// Watches an Executor from outside, for tests that disturb it and for recording. Each call comes on the
// thread of the op's stream, for every op in turn, whether it runs or is passed over: `before_op` when its
// waits are over, `after_op` before anybody may learn that it is done. On a device that works behind the
// caller's back they come when the op is enqueued, and not at all when a run is replayed; time_ops() is for
// that.
class ExecutorProbe {
 public:
  virtual ~ExecutorProbe() = default;
  virtual void before_op(const Executor&, OpId) {}
  virtual void after_op(const Executor&, OpId) {}
};

class Executor {
 public:
  // `device`, and `probe` if any, must outlive the executor.
  Executor(Program program, Device& device, ExecutorProbe* probe = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Forward and backward of one micro-batch: every op before the optimizer phase. Returns when all streams
  // are idle; an Error of any op is thrown here.
  void run_micro_batch(const RunState& state);
  // Of forward, the ops that lead to what outlives it, such as the loss: an evaluation's micro-batch, for a
  // state whose `training` is false. What forward stores for backward is left out. Its waits do not count in
  // the sums of waits().
  void run_forward(const RunState& state);
  // The optimizer phase, once per step.
  void run_optimizer(const RunState& state);

  // Where a value is, on the device; only a CPU's may be looked at there.
  Tensor tensor(ValueId value) const;
  // Copies host memory over a value, and the other way round: all of it, or `bytes` from `offset` on.
  void write(ValueId value, const void* from) const;
  void write(ValueId value, const void* from, std::size_t offset, std::size_t bytes) const;
  void read(void* to, ValueId value) const;
  void read(void* to, ValueId value, std::size_t offset, std::size_t bytes) const;
  const Arena& arena() const { return arena_; }  // on the device
  // Called when the streams are gone, and all that they recorded, but the arena is not.
  void set_farewell(std::function<void()> farewell) { farewell_ = std::move(farewell); }
  const Program& program() const { return program_; }
  const Device& device() const { return device_; }

  // What the kernels that have run were really handed: the same ledger, from operands instead of from the
  // plan. Throws kInternal if two blocks that live at the same time overlap.
  MemoryLedger measured() const;

  // Runs a micro-batch op by op on the compute stream and returns the name of the first value, in program
  // order, that holds an infinity or a NaN; empty if there is none. Gradients are garbage afterwards.
  std::string find_non_finite(const RunState& state);

  // Whether the runs that follow are timed op by op where a probe cannot do it (Streams::time_ops), and the
  // times of the latest one.
  void time_ops(bool on) { streams_->time_ops(on); }
  const RunTimes* times() const { return streams_->times(); }

  // Who waited for whom, summed over runs.
  const WaitTimes& waits() const { return streams_->waits(); }
  // What side streams took of the processor (Streams::processor_seconds).
  double processor_seconds(StreamId stream) const { return streams_->processor_seconds(stream); }

 private:
  struct BoundOp {
    std::vector<Tensor> in, out;
    std::byte* workspace = nullptr;
  };

  void bind();
  void prepare();
  void run(OpId begin, OpId end, const RunState& state);
  void run_op(OpId id, KernelArgs args);
  bool finite(ValueId value) const;
  const Arena& arena_of(MemorySpace space) const {
    return space == MemorySpace::kDevice ? arena_ : host_arena_;
  }

  Program program_;
  Device& device_;
  Arena arena_, host_arena_;
  OpId forward_end_ = 0, optimizer_begin_ = 0;
  std::vector<char> leads_on_;  // by op of forward: does it lead to what outlives it?
  std::vector<BoundOp> bound_;  // by op
  std::vector<char> executed_;  // by op: has it ever run?
  std::unique_ptr<Streams> streams_;
  std::function<void()> farewell_;
};

}  // namespace recollect
