// An Executor runs a Program in the memory of its model. Executors of several programs may share that memory,
// as long as only one runs at a time. Running a step allocates nothing and decides nothing: memory, order and
// kernels were fixed when the program was compiled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/program.h"
#include "engine/runtime/program_memory.h"

namespace recollect {

class Executor;

// Observes an Executor: tests use it to disturb the timing, StepRecorder to record it. Both functions are
// called on the thread of the op's stream, for every op in order, also for an op that is skipped: `before_op`
// after the op's waits have ended, `after_op` before another stream can see that the op is done. On an
// asynchronous device they are called when the op is enqueued, and not at all when a run is replayed; use
// time_ops() there.
class ExecutorProbe {
 public:
  virtual ~ExecutorProbe() = default;
  virtual void before_op(const Executor&, OpId) {}
  virtual void after_op(const Executor&, OpId) {}
};

class Executor {
 public:
  // Throws Error kInternal if the program does not fit `memory`. `memory` and `probe` must outlive the
  // executor. Persistent values in the memory keep their contents.
  Executor(Program program, ProgramMemory& memory, ExecutorProbe* probe = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs forward and backward of one micro-batch: every op before the optimizer phase. Returns when all
  // streams are idle. Throws the Error of any op.
  void run_micro_batch(const RunState& state);
  // Runs a micro-batch of an evaluation: only the forward ops that lead to a persistent value, such as the
  // loss. Activations that only backward needs are not stored. `state.training` must be false. Waits of this
  // run do not count in waits().
  void run_forward(const RunState& state);
  // Returns true if `value` is still intact when run_forward() has ended. This holds for the inputs of the
  // last op that it runs, because nothing has been placed over them yet.
  bool outlives_forward(ValueId value) const;
  // Runs the optimizer phase, once per step.
  void run_optimizer(const RunState& state);

  // Returns the value's address on the device. The host may access it only on a CPU device. Inputs and
  // transient values keep this program's contents until another program runs in the same memory.
  Tensor tensor(ValueId value) const;
  // Copies between host memory and a value.
  void write(ValueId value, const void* from) const { memory_.write(tensor(value), from); }
  void read(void* to, ValueId value) const { memory_.read(to, tensor(value)); }
  const ProgramMemory& memory() const { return memory_; }
  const Program& program() const { return program_; }

  // Returns the ledger computed from the operands that the executed kernels were given, instead of from the
  // plan. Throws kInternal if two blocks that are live at the same time overlap. `held` names shared values
  // that count although no kernel of this program has used them, because a kernel of another program has.
  MemoryLedger measured(const NameSet& held = {}) const { return executed_ledger(held, Places::kOperands); }
  // Returns what the layout predicts for the same kernels. Once every kernel has run, this covers the whole
  // program.
  MemoryLedger predicted_so_far(const NameSet& held = {}) const {
    return executed_ledger(held, Places::kLayout);
  }
  // Adds the names of all shared values that the executed kernels were given.
  void add_held(NameSet& held) const;
  bool has_run() const;

  // Runs a micro-batch one op at a time and returns the name of the first value, in program order, that
  // contains an infinity or a NaN; empty if there is none. The gradients are invalid afterwards.
  std::string find_non_finite(const RunState& state);

  // Turns timing of each op on or off for the following runs, on devices where a probe cannot measure it
  // (Streams::time_ops). times() returns the times of the latest run.
  void time_ops(bool on) { streams_->time_ops(on); }
  const RunTimes* times() const { return streams_->times(); }

  // The time that streams waited for each other, summed over runs.
  const WaitTimes& waits() const { return streams_->waits(); }
  // The processor time that a side stream used (Streams::processor_seconds).
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
  bool begins_ = false;         // true if some op runs only once (RunWhen::kOnce)
  std::vector<char> leads_on_;  // by forward op: true if it leads to a persistent value
  std::vector<BoundOp> bound_;  // by op
  std::vector<char> executed_;  // by op: true once it has run
  std::unique_ptr<Streams> streams_;
};

}  // namespace recollect
