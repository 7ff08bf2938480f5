// Runs a Program in the memory of its model. Executors of other programs may share the memory, as long as one
// runs at a time. Running a step allocates nothing and decides nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/program.h"
#include "engine/runtime/program_memory.h"

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
  // Error kInternal where the program does not fit `memory`. That must outlive the executor, and so must
  // `probe`, if any. What persists in the memory keeps what it holds.
  Executor(Program program, ProgramMemory& memory, ExecutorProbe* probe = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Forward and backward of one micro-batch: every op before the optimizer phase. Returns when all streams
  // are idle; an Error of any op is thrown here.
  void run_micro_batch(const RunState& state);
  // Of forward, the ops that lead to what outlives it, such as the loss: an evaluation's micro-batch, for a
  // state whose `training` is false. What forward stores for backward is left out. Its waits do not count in
  // the sums of waits().
  void run_forward(const RunState& state);
  // Whether a value holds what run_forward() has given it, when that is done: the last op that it runs reads the value,
  // so that nothing else has its place yet.
  bool outlives_forward(ValueId value) const;
  // The optimizer phase, once per step.
  void run_optimizer(const RunState& state);

  // Where a value is, on the device; only a CPU's may be looked at there. Inputs, and what is not persistent,
  // hold what this program gives them until another one runs in the memory.
  Tensor tensor(ValueId value) const;
  // Copies host memory over a value, and the other way round.
  void write(ValueId value, const void* from) const { memory_.write(tensor(value), from); }
  void read(void* to, ValueId value) const { memory_.read(to, tensor(value)); }
  const ProgramMemory& memory() const { return memory_; }
  const Program& program() const { return program_; }

  // What the kernels that have run were really handed: the same ledger, from operands instead of from the
  // plan. Throws kInternal if two blocks that live at the same time overlap. `held`: names of shared values that count
  // though no kernel of this program has used them, since another one's has.
  MemoryLedger measured(const NameSet& held = {}) const { return executed_ledger(held, Places::kOperands); }
  // What the layout predicts for those kernels; for all of the program, once each of its kernels has run.
  MemoryLedger predicted_so_far(const NameSet& held = {}) const {
    return executed_ledger(held, Places::kLayout);
  }
  // Adds the names of the shared values that kernels which have run were handed.
  void add_held(NameSet& held) const;
  bool has_run() const;

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
  enum class Places { kOperands, kLayout };

  MemoryLedger executed_ledger(const NameSet& held, Places places) const;
  uint64_t offset_of(ValueId value, const Tensor& operand) const;
  void bind();
  void prepare(OpId id, bool first_program);
  void run(OpId begin, OpId end, RunState state);
  void run_op(OpId id, KernelArgs args);
  bool finite(ValueId value) const;

  Program program_;
  ProgramMemory& memory_;
  OpId forward_end_ = 0, optimizer_begin_ = 0;
  bool begins_ = false;         // some op runs once
  std::vector<char> leads_on_;  // by op of forward: does it lead to what outlives it?
  std::vector<BoundOp> bound_;  // by op
  std::vector<char> executed_;  // by op: has it ever run?
  std::unique_ptr<Streams> streams_;
};

}  // namespace recollect
