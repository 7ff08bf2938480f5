// A Kernel is one op bound to its shapes. It is made once, at start-up, and run every step. Making a kernel
// may plan, build primitives and allocate, but must not call a device: programs are also compiled on machines
// without one, to predict their memory. Running a kernel must not allocate.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/tensor.h"
#include "engine/graph/op_def.h"

namespace recollect {

// Everything that differs between two runs of one program, except the contents of its external values.
struct RunState {
  uint64_t seed = 0;
  int64_t step = 0;           // 0-based optimizer step
  int64_t micro_batch = 0;    // 0-based, within the step
  int64_t micro_batches = 1;  // in the step
  int64_t first_sample = 0;   // index of this micro-batch's first sample, counted over the whole run
  // The distance between the dropout indices of the first tokens of two consecutive samples. It is at least
  // the length of the run's longest sample, and the same for all batches, whatever their lengths.
  int64_t token_stride = 0;
  bool training = true;  // false in an evaluation: dropout is the identity, and forward makes no gradients
  bool begins = false;   // persistent values were written from outside since the last run; set by Executor
  bool first_micro_batch() const { return micro_batch == 0; }
  bool last_micro_batch() const { return micro_batch + 1 == micro_batches; }
  bool runs(RunWhen when) const {
    if (when == RunWhen::kOnce) return begins;
    if (when == RunWhen::kFirstMicroBatch) return first_micro_batch();
    return when == RunWhen::kAlways || last_micro_batch();
  }
};

// Returns the state for an op whose rows begin at a later sample of the micro-batch.
inline RunState state_of(const Op& op, RunState state) {
  state.first_sample += op.first_sample;
  return state;
}

struct KernelArgs {
  std::span<const Tensor> in = {};  // an absent optional input is an undefined Tensor
  std::span<const Tensor> out = {};
  std::byte* workspace = nullptr;  // 64-byte aligned, Kernel::workspace_bytes() long
  const RunState* state = nullptr;
  const RunState* device_state = nullptr;  // a copy that the device's kernels can read; null on CPU
  bool accumulate = false;                 // add into accumulator outputs instead of overwriting them
  void* stream = nullptr;  // the device's native stream; null on CPU, where the calling thread is the stream
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  // Called once, on the device that will run the kernel and before the first run. It may allocate, time
  // candidates and choose one (autotune). The operands are those of every later run. A kernel that overwrites
  // operands here, at once or on its stream, returns true from overwrites_to_prepare(); the executor then
  // restores what other programs had stored in them.
  virtual void prepare(const KernelArgs&) {}
  virtual bool overwrites_to_prepare() const { return false; }
  // On an asynchronous device this enqueues on args.stream. args.state may be gone before the work is done,
  // so device code must read args.device_state.
  virtual void run(const KernelArgs& args) = 0;
  // How long the latest run waited for other ranks that run the same collective, and for which rank most of
  // the time. Zero if that is not known.
  struct OutsideWait {
    double seconds = 0;
    int whom = -1;
  };
  virtual OutsideWait outside_wait() const { return {}; }
  // Called when a run is complete. Throws the Error that background work could not throw.
  virtual void check(const RunState&) {}
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const OpView&)>;

// Maps an op kind to its kernel factory, for one backend and one rank.
class KernelTable {
 public:
  void add(std::string op, KernelFactory factory);
  void add(std::string op, void (*function)(const KernelArgs&, const Attributes&));  // needs no preparation
  std::unique_ptr<Kernel> make(
      const OpView& view) const;  // throws an Error that names the op kind if the backend lacks it
  bool has(std::string_view op) const { return factories_.find(op) != factories_.end(); }

 private:
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

}  // namespace recollect
