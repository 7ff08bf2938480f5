// A Kernel is one op bound to its shapes: made once, at start-up, run every step. Making it may plan, build
// primitives and allocate, but asks nothing of a device: programs are also made where there is none, to
// predict their memory. Running it must not allocate.
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

// All that differs between two runs of one program, apart from the contents of its external values.
struct RunState {
  uint64_t seed = 0;
  int64_t step = 0;           // 0-based optimizer step
  int64_t micro_batch = 0;    // 0-based, within the step
  int64_t micro_batches = 1;  // in the step
  int64_t first_sample = 0;   // number in the run of this micro-batch's first sample
  // Between the numbers that dropout gives to the first tokens of consecutive samples: no less than the
  // longest sample of the run has, and the same for all batches, whatever their lengths.
  int64_t token_stride = 0;
  bool training = true;  // false in an evaluation: dropout is the identity, and forward makes no gradients
  bool begins =
      false;  // what persists was written from outside, and nothing has run since; the executor says so
  bool first_micro_batch() const { return micro_batch == 0; }
  bool last_micro_batch() const { return micro_batch + 1 == micro_batches; }
  bool runs(RunWhen when) const {
    if (when == RunWhen::kOnce) return begins;
    if (when == RunWhen::kFirstMicroBatch) return first_micro_batch();
    return when == RunWhen::kAlways || last_micro_batch();
  }
};

// As an op sees it whose rows are later samples of the micro-batch.
inline RunState state_of(const Op& op, RunState state) {
  state.first_sample += op.first_sample;
  return state;
}

struct KernelArgs {
  std::span<const Tensor> in = {};  // an absent optional input is an undefined Tensor
  std::span<const Tensor> out = {};
  std::byte* workspace = nullptr;  // 64-byte aligned, Kernel::workspace_bytes() long
  const RunState* state = nullptr;
  const RunState* device_state = nullptr;  // the same, where the device's kernels can read it; null on CPU
  bool accumulate = false;                 // add into accumulator outputs instead of overwriting them
  void* stream = nullptr;  // the device's native stream; null on CPU, where the calling thread is the stream
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  // Once, on the device that will run it and before the first run: may allocate, time and choose. The
  // operands are those of every run. Where they are overwritten, on the stream or at once, overwrites_to_prepare() says so:
  // what other programs left in them is then put back.
  virtual void prepare(const KernelArgs&) {}
  virtual bool overwrites_to_prepare() const { return false; }
  // On a device that works behind the caller's back this enqueues on args.stream, and state may be gone
  // before the work is done: what depends on it must come from device_state.
  virtual void run(const KernelArgs& args) = 0;
  // Of the latest run: how long it stood for others who run the same beside this process, and for whom most.
  // Nothing where that is not known.
  struct OutsideWait {
    double seconds = 0;
    int whom = -1;
  };
  virtual OutsideWait outside_wait() const { return {}; }
  // When everything of a run is done: throws the Error that work in the background could not throw.
  virtual void check(const RunState&) {}
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const OpView&)>;

// op kind -> kernel factory, of one backend and one rank.
class KernelTable {
 public:
  void add(std::string op, KernelFactory factory);
  void add(std::string op, void (*function)(const KernelArgs&, const Attributes&));  // needs no preparation
  std::unique_ptr<Kernel> make(
      const OpView& view) const;  // an Error names the op kind that the backend lacks
  bool has(std::string_view op) const { return factories_.find(op) != factories_.end(); }

 private:
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

}  // namespace recollect
