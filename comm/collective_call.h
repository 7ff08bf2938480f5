// A CollectiveCall is a small record of one call, which ranks exchange and compare. Ranks that make different
// calls at the same place get an error instead of reading each other's bytes.
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
  kSend,  // kSend and kReceive are calls between two ranks
  kReceive,
};

struct CollectiveCall {
  uint64_t sequence =
      0;  // counts the collectives of a communicator, or the tensors from one rank to another, from 1
  uint64_t bytes = 0;  // size of the tensor that each rank contributes (in a broadcast: holds)
  int32_t root = 0;    // root of a broadcast; of a send or receive the other rank, as a world rank
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;

  bool operator==(const CollectiveCall&) const = default;
  std::string name() const;       // "all_reduce #17", "send #3 to rank 2"
  std::string to_string() const;  // "all_reduce #17 (sum, f32, 4096 bytes)"
};

// These check shapes and dtypes and return the record of a call, with sequence number 0. They throw Error
// kInternal if this rank's tensors do not fit the collective.
CollectiveCall all_reduce_call(const Tensor& tensor, ReduceOp op);
CollectiveCall all_gather_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall reduce_scatter_call(const Tensor& in, const Tensor& out, int size);
CollectiveCall broadcast_call(const Tensor& tensor, int root, int size);

// Returns true if a rank of a group of `size` passes a tensor to itself, which is a copy. Throws Error
// kInternal for peers that do not exist, for a send to or a receive from itself alone, and for a copy between
// tensors of different size or dtype.
bool is_copy(const Parcel& out, const Parcel& in, int rank, int size);
// The records of the two sides; `peer` is the other rank by its number in the world. An empty parcel has an
// empty record.
CollectiveCall send_call(const Parcel& out, uint64_t sequence, int peer);
CollectiveCall receive_call(const Parcel& in, uint64_t sequence, int peer);
// Returns true if one of the calls sends the tensor that the other one receives. `mine` is the call of
// `rank`.
bool match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs);
// Throws Error kRanksDisagree, naming both calls, unless they match.
void check_match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs);

// Throws Error kRanksDisagree, naming every distinct call and its ranks, unless all calls are equal.
// `ranks[i]` is the number under which messages name the rank that made `calls[i]`. All ranks see the same
// calls, so all throw or none does.
void check_agreement(std::span<const CollectiveCall> calls, std::span<const int> ranks);

// "rank 3", "ranks 0, 2, 5"
std::string name_ranks(std::span<const int> ranks);

}  // namespace recollect
