// Ranks of one node that talk through shared memory: threads of one process, or processes. One implementation
// serves both; only the way to the shared segment differs.
//
// Collectives pass through staging slots in the segment, a chunk at a time; all memory is taken when a group
// is made. Sums are in rank order for every element, so every rank gets the same bits whatever the chunking.
//
// A failure is everyone's failure: once a rank aborts, dies, leaves or keeps the others waiting longer than
// the timeout, all pending and future calls on every communicator that came from the same group (by split)
// throw kPeerLost with the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace recollect {

inline constexpr std::chrono::milliseconds kDefaultPeerTimeout = std::chrono::minutes(5);
// Bytes of one staging slot; a rank has three of them in every group.
inline constexpr std::size_t kDefaultChunkBytes = 256 << 10;

// Of a rank in a group of `size` ranks that was split from a world of `world_size`.
std::size_t local_staging_bytes(int world_size, int size);

namespace local {
class Segment;
}

// Made by one thread for `size` rank threads of this process; must only live until all have joined.
class LocalGroup {
 public:
  explicit LocalGroup(int size, std::chrono::milliseconds timeout = kDefaultPeerTimeout,
                      std::size_t chunk_bytes = kDefaultChunkBytes);
  // The communicator of one rank, to be used by one thread at a time. Waits for nobody. Each rank joins once;
  // any thread may call. A group of one is the self communicator.
  std::unique_ptr<Communicator> join(int rank);

 private:
  std::shared_ptr<local::Segment> segment_;  // null in a group of one
  std::chrono::milliseconds timeout_;
  int size_;
};

struct LocalWorld {
  std::string run_id;  // the same for all processes of a run, and for no other run alive on this node
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = kDefaultPeerTimeout;
  std::size_t chunk_bytes = kDefaultChunkBytes;
};

// Collective over the processes of one run on this node: returns when all have come. Nothing is left in the
// node's shared-memory directory from then on, whoever dies later. Errors: kPeerLost when they do not all
// come in time, kConfiguration for two processes of one rank, kRanksDisagree for different sizes, kHostMemory
// when the node's shared memory is too small.
std::unique_ptr<Communicator> join_local_processes(const LocalWorld& world);

}  // namespace recollect
