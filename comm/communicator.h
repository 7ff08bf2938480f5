// A group of ranks and its collectives. Every rank of the group makes the same calls in the same order;
// results do not depend on timing (summation order is fixed). A world of one is a null object: every call is
// a no-op or a copy. A peer that does not come within the timeout is Error kPeerLost, naming the call.
//
// Beside the collectives, two ranks can pass a tensor from one to the other. Each pair's sends match the
// receives of the other side in order, whatever others do meanwhile. Both sides meet: neither returns (on a
// device: neither stream goes on) before the other has come, so nothing is ever buffered, and ranks that all
// send first and receive then wait for each other for ever, until the timeout says so. A ring or a pair that
// swaps is an exchange, which sends and receives at once, and is safe whenever all ranks concerned exchange.
// Tensors of another size or dtype on the two sides are Error kRanksDisagree on both.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/tensor.h"

namespace recollect {

class CallLog;
class CallTimes;

// A tensor that goes to a rank of the group or comes from one; none where `peer` is negative.
struct Parcel {
  Tensor tensor = {};
  int peer = -1;
  explicit operator bool() const { return peer >= 0; }
};

enum class ReduceOp { kSum, kMax };

// What is done in memory that ranks share: gathers, by copy engines; or sums, gathers and reduce-scatters, by kernels.
enum class Shared { kGathers, kCollectives };

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "self", "local", "mpi", "tcp", "device-local", "nccl 2.30.7"
  virtual std::string name() const = 0;

  // Elementwise over the ranks, in place. f64, f32, i64, and bf16 and f16 (summed in float, rounded once;
  // NCCL rounds at every hop).
  virtual void all_reduce(const Tensor& tensor, ReduceOp op, void* stream = nullptr) = 0;
  // out is [size * n, ...] for in of [n, ...]: the ranks' parts in rank order. Any dtype.
  virtual void all_gather(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  // in is [size * n, ...]; out, [n, ...], is this rank's part of the sum.
  virtual void reduce_scatter(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  virtual void broadcast(const Tensor& tensor, int root, void* stream = nullptr) = 0;
  virtual void barrier() = 0;

  void send(const Tensor& tensor, int to, void* stream = nullptr) { pass(parcel(tensor, to), {}, stream); }
  void receive(const Tensor& tensor, int from, void* stream = nullptr) {
    pass({}, parcel(tensor, from), stream);
  }
  // The two tensors do not overlap. An exchange with oneself is a copy; all else with oneself is Error
  // kInternal.
  void exchange(const Tensor& out, int to, const Tensor& in, int from, void* stream = nullptr) {
    pass(parcel(out, to), parcel(in, from), stream);
  }
  // What these three are made of: at least one of the two.
  virtual void pass(const Parcel& out, const Parcel& in, void* stream) = 0;

  // What this rank's buffers take, outside the arenas; taken, and written, when the group is made.
  virtual std::size_t staging_bytes() const { return 0; }

  // How long the calls so far took; null where they are done behind the caller's back, and that is not known.
  virtual const CallTimes* times() const { return nullptr; }
  // Calls of this communicator, and of those that are split from it from then on, are noted there.
  virtual void note_calls_in(std::shared_ptr<CallLog>) {}  // NOLINT(performance-unnecessary-value-param)
  // Calls from now on are those of this op, in the log and in errors; null: of none. The text must stay until then.
  virtual void name_op(const char*) {}

  // Collective. The ranks that give the same colour form a new group, in the order of their ranks here.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // The same, for calls that run beside matrix products: on a GPU they take few of its multiprocessors.
  virtual std::unique_ptr<Communicator> split_beside_products(int color) { return split(color); }
  // Makes the peers' pending and future calls fail with kPeerLost. Called by a rank that is about to stop on
  // an error; must not wait for anybody.
  virtual void abort(const std::string& why) noexcept = 0;
  // Why calls fail, where this process knows without asking anybody. Any thread may ask at any time.
  virtual std::optional<std::string> stop_reason() const { return {}; }

  // What follows is for communicators that work on a device, behind the caller's back.

  // Memory of the device that it holds beside the arena, where that is known.
  virtual std::size_t device_bytes() const { return 0; }

  // Whether calls may be recorded once, as a CUDA graph, and replayed without being made again.
  virtual bool capturable() const { return true; }
  // When all work that was given to the streams is done, at the same places on every rank: throws the Error
  // that this work could not throw. A communicator and those split from it answer for each other.
  virtual void check() {}
  // Collective. Tensors of later calls of a kind may lie in this memory: true where it can therefore move them without
  // staging. What other ranks read of a rank, or write there, is at the same offset in the memory of each: a sum, what is
  // gathered into, what a reduce-scatter reads. False changes nothing. Sums have other bits then.
  virtual bool share_memory(void*, std::size_t, Shared) { return false; }
  // Before the shared memory goes, if it does so before the communicator. On every rank.
  virtual void unshare_memory() noexcept {}

 private:
  static Parcel parcel(const Tensor& tensor, int peer) {
    if (peer < 0) require(false, "there is no rank " + std::to_string(peer));
    return {tensor, peer};
  }
};

std::unique_ptr<Communicator> make_self_communicator();

}  // namespace recollect
