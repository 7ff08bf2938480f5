// Ranks of one node that communicate through shared memory: threads of one process, or processes. One
// implementation serves both; only the way to the shared segment differs.
//
// Collectives pass through staging slots in the segment, one chunk at a time. All memory is allocated when a
// group is made. Every element is summed in rank order, so every rank gets the same bits whatever the chunk
// size.
//
// One rank's failure is the failure of all: once a rank aborts, dies, leaves or makes the others wait longer
// than the timeout, all pending and future calls on every communicator split from the same group throw
// kPeerLost with the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace recollect {

inline constexpr std::chrono::milliseconds kDefaultPeerTimeout = std::chrono::minutes(5);
// Bytes of one staging slot; a rank has three in every group.
inline constexpr std::size_t kDefaultChunkBytes = 256 << 10;

// The staging bytes of a rank in a group of `size` ranks that was split from a world of `world_size`.
std::size_t local_staging_bytes(int world_size, int size);

namespace local {
class Segment;
}

// One thread makes it for `size` rank threads of this process. It need only live until all have joined.
class LocalGroup {
 public:
  explicit LocalGroup(int size, std::chrono::milliseconds timeout = kDefaultPeerTimeout,
                      std::size_t chunk_bytes = kDefaultChunkBytes);
  // Returns the communicator of one rank, which one thread at a time may use. Does not wait. Each rank joins
  // once; any thread may call. A group of one gets the self communicator.
  std::unique_ptr<Communicator> join(int rank);

 private:
  std::shared_ptr<local::Segment> segment_;  // null in a group of one
  std::chrono::milliseconds timeout_;
  int size_;
};

struct LocalWorld {
  std::string run_id;  // the same for all processes of a run, and unique among the live runs of this node
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = kDefaultPeerTimeout;
  std::size_t chunk_bytes = kDefaultChunkBytes;
};

// Collective over the processes of one run on this node: returns when all have come. After that nothing is
// left in the node's shared-memory directory, whichever process dies. Throws kPeerLost if they do not all
// come in time, kConfiguration for two processes of one rank, kRanksDisagree for different sizes, and
// kHostMemory if the node's shared memory is too small.
std::unique_ptr<Communicator> join_local_processes(const LocalWorld& world);

}  // namespace recollect
