// A group of ranks and its collectives. Every rank of the group makes the same calls in the same order;
// results do not depend on timing (summation order is fixed). A world of one is a null object: every call is
// a no-op or a copy. A peer that does not come within the timeout is Error kPeerLost, naming the collective.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/core/tensor.h"

namespace recollect {

enum class ReduceOp { kSum, kMax };

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "self", "local", "mpi", "tcp", "nccl"

  // Elementwise over the ranks, in place. f64, f32, bf16 (summed in float, rounded once), i64.
  virtual void all_reduce(const Tensor& tensor, ReduceOp op, void* stream = nullptr) = 0;
  // out is [size * n, ...] for in of [n, ...]: the ranks' parts in rank order. Any dtype.
  virtual void all_gather(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  // in is [size * n, ...]; out, [n, ...], is this rank's part of the sum.
  virtual void reduce_scatter(const Tensor& in, const Tensor& out, void* stream = nullptr) = 0;
  virtual void broadcast(const Tensor& tensor, int root, void* stream = nullptr) = 0;
  virtual void barrier() = 0;

  // What this rank's buffers take, outside the arenas; taken when the group is made.
  virtual std::size_t staging_bytes() const { return 0; }

  // Collective. The ranks that give the same colour form a new group, in the order of their ranks here.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // Makes the peers' pending and future calls fail with kPeerLost. Called by a rank that is about to stop on
  // an error; must not wait for anybody.
  virtual void abort(const std::string& why) noexcept = 0;
};

std::unique_ptr<Communicator> make_self_communicator();

}  // namespace recollect
