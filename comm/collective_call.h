// One collective call as a small record that ranks can exchange and compare: ranks that do not make the same
// call at the same place must hear about it, not read each other's bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace recollect {

enum class CollectiveKind : uint8_t { kBarrier, kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSplit };

struct CollectiveCall {
  uint64_t sequence = 0;  // counts the calls on one communicator, from 1
  uint64_t bytes = 0;     // of the tensor that every rank gives (or, in a broadcast, holds)
  int32_t root = 0;
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;

  bool operator==(const CollectiveCall&) const = default;
  std::string name() const;       // "all_reduce #17"
  std::string to_string() const;  // "all_reduce #17 (sum, f32, 4096 bytes)"
};

// The record of a call (its sequence number still 0), after checking shapes and dtypes: Error kInternal where
// this rank's tensors do not fit the collective.
CollectiveCall all_reduce_call(const Tensor& tensor, ReduceOp op);
CollectiveCall all_gather_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall reduce_scatter_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall broadcast_call(const Tensor& tensor, int root, int size);

// Error kRanksDisagree naming every distinct call and its ranks, unless all are equal. `ranks[i]` is how
// messages call the rank that made `calls[i]`. All ranks see the same calls, so all throw or none does.
void check_agreement(std::span<const CollectiveCall> calls, std::span<const int> ranks);

// "rank 3", "ranks 0, 2, 5"
std::string name_ranks(std::span<const int> ranks);

}  // namespace recollect
