// One call as a small record that ranks can exchange and compare: ranks that do not make the same
// call at the same place must hear about it, not read each other's bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace recollect {

enum class CollectiveKind : uint8_t {
  kBarrier,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kSplit,
  kSend,  // this and the next between two ranks
  kReceive,
};

struct CollectiveCall {
  uint64_t sequence =
      0;  // counts the collectives on one communicator, or the tensors from one rank to another, from 1
  uint64_t bytes = 0;  // of the tensor that every rank gives (or, in a broadcast, holds)
  int32_t root = 0;    // of a broadcast; of a send and a receive, the other rank, by its number in the world
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;

  bool operator==(const CollectiveCall&) const = default;
  std::string name() const;       // "all_reduce #17", "send #3 to rank 2"
  std::string to_string() const;  // "all_reduce #17 (sum, f32, 4096 bytes)"
};

// The record of a call (its sequence number still 0), after checking shapes and dtypes: Error kInternal where
// this rank's tensors do not fit the collective.
CollectiveCall all_reduce_call(const Tensor& tensor, ReduceOp op);
CollectiveCall all_gather_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall reduce_scatter_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall broadcast_call(const Tensor& tensor, int root, int size);

// Whether a rank of a group of `size` passes a tensor to itself, which is a copy. Error kInternal for peers
// that are none, for a tensor to or from itself alone, and for a copy between tensors of different size or
// dtype.
bool is_copy(const Parcel& out, const Parcel& in, int rank, int size);
// The records of both sides; `peer` is the other rank by its number in the world. An empty record where the
// parcel is none.
CollectiveCall send_call(const Parcel& out, uint64_t sequence, int peer);
CollectiveCall receive_call(const Parcel& in, uint64_t sequence, int peer);
// Whether `theirs` is the receive of the tensor that `mine`, of `rank`, sends, or the other way round.
bool match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs);
// Error kRanksDisagree naming both calls unless they match.
void check_match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs);

// Error kRanksDisagree naming every distinct call and its ranks, unless all are equal. `ranks[i]` is how
// messages call the rank that made `calls[i]`. All ranks see the same calls, so all throw or none does.
void check_agreement(std::span<const CollectiveCall> calls, std::span<const int> ranks);

// "rank 3", "ranks 0, 2, 5"
std::string name_ranks(std::span<const int> ranks);

}  // namespace recollect
