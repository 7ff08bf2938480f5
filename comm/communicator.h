// A Communicator is a group of ranks and its collectives. Every rank of the group makes the same calls in the
// same order. Results do not depend on timing, because the order of summation is fixed. In a world of one
// every call is a no-op or a copy. A peer that does not enter a call within the timeout causes Error
// kPeerLost, which names the call.
//
// Two ranks can also pass a tensor from one to the other. The sends of a pair match the receives of the other
// side in order, whatever other ranks do meanwhile. The two sides meet: neither returns (on a device: neither
// stream continues) before the other one has come, so nothing is ever buffered. Ranks that all send first and
// receive later wait for each other until the timeout. A ring, or a pair that swaps, should use exchange(),
// which sends and receives at once and is safe if all ranks concerned exchange. If size or dtype differ
// between the two sides, both throw Error kRanksDisagree.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/tensor.h"

namespace recollect {

class CallLog;
class CallTimes;

// A tensor that goes to a rank of the group or comes from one; empty if `peer` is negative.
struct Parcel {
  Tensor tensor = {};
  int peer = -1;
  explicit operator bool() const { return peer >= 0; }
};

enum class ReduceOp { kSum, kMax };

// Which calls use memory that the ranks share: gathers, by copy engines; or sums, gathers and
// reduce-scatters, by kernels.
enum class Shared { kGathers, kCollectives };

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "self", "local", "mpi", "tcp", "device-local", "nccl 2.30.7"
  virtual std::string name() const = 0;

  // Reduces elementwise over the ranks, in place. Dtypes: f64, f32, i64, and bf16 and f16 (summed in float,
  // rounded once; NCCL rounds at every hop).
  virtual void all_reduce(const Tensor& tensor, ReduceOp op, void* stream = nullptr) = 0;
  // Concatenates the ranks' parts in rank order: out is [size * n, ...] for in of [n, ...]. Any dtype.
  virtual void all_gather(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  // Sums `in`, [size * n, ...], over the ranks; `out`, [n, ...], is this rank's part of the sum.
  virtual void reduce_scatter(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  virtual void broadcast(const Tensor& tensor, int root, void* stream = nullptr) = 0;
  virtual void barrier() = 0;

  void send(const Tensor& tensor, int to, void* stream = nullptr) { pass(parcel(tensor, to), {}, stream); }
  void receive(const Tensor& tensor, int from, void* stream = nullptr) {
    pass({}, parcel(tensor, from), stream);
  }
  // The two tensors must not overlap. An exchange with oneself is a copy; any other call with oneself is
  // Error kInternal.
  void exchange(const Tensor& out, int to, const Tensor& in, int from, void* stream = nullptr) {
    pass(parcel(out, to), parcel(in, from), stream);
  }
  // The three calls above are made of this one: at least one of the two parcels is not empty.
  virtual void pass(const Parcel& out, const Parcel& in, void* stream) = 0;

  // The bytes of this rank's buffers outside the arenas. They are allocated, and touched, when the group is
  // made.
  virtual std::size_t staging_bytes() const { return 0; }

  // The times of the calls so far; null if they are asynchronous and their times are not known.
  virtual const CallTimes* times() const { return nullptr; }
  // Notes later calls of this communicator, and of those split from it afterwards, in the log.
  virtual void note_calls_in(std::shared_ptr<CallLog>) {}  // NOLINT(performance-unnecessary-value-param)
  // Later calls belong to this op, in the log and in errors; null: to none. The text must stay valid until
  // then.
  virtual void name_op(const char*) {}

  // Collective. Ranks that give the same colour form a new group, in the order of their ranks here.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // The same, for calls that run concurrently with matrix products: on a GPU they use few of its
  // multiprocessors.
  virtual std::unique_ptr<Communicator> split_beside_products(int color) { return split(color); }
  // Makes the peers' pending and future calls fail with kPeerLost. A rank that is about to stop on an error
  // calls it; it must not wait for any rank.
  virtual void abort(const std::string& why) noexcept = 0;
  // Returns why calls fail, if this process knows it without asking another rank. Any thread may call it at
  // any time.
  virtual std::optional<std::string> stop_reason() const { return {}; }

  // The following functions are for communicators that work asynchronously on a device.

  // The device memory that it holds besides the arena, if known.
  virtual std::size_t device_bytes() const { return 0; }

  // Returns true if calls may be captured in a CUDA graph and replayed.
  virtual bool capturable() const { return true; }
  // Called at the same places on every rank when all work on the streams is done: throws the Error that this
  // work could not throw. A communicator and those split from it report each other's errors.
  virtual void check() {}
  // Collective. Announces memory that holds the tensors of later calls of a kind. Returns true if the
  // communicator can therefore move them without staging. Data that other ranks access (the buffer of a sum,
  // the output of a gather, the input of a reduce-scatter) must be at the same offset on every rank. Sums
  // then have other bits. False changes nothing.
  virtual bool share_memory(void*, std::size_t, Shared) { return false; }
  // Called on every rank before the shared memory is freed, if the communicator lives longer.
  virtual void unshare_memory() noexcept {}

 private:
  static Parcel parcel(const Tensor& tensor, int peer) {
    if (peer < 0) require(false, "there is no rank " + std::to_string(peer));
    return {tensor, peer};
  }
};

std::unique_ptr<Communicator> make_self_communicator();

}  // namespace recollect
