// Ranks that talk over TCP, without MPI: they meet at a store (comm/store/environment.h says where), tell
// each other their addresses there and connect directly, every pair of a group by a socket of its own. The
// collectives are those of comm/message_communicator.h, so sums have the same bits as over shared memory.
//
// A failure is everyone's failure: once a rank aborts, dies, leaves or keeps the others waiting longer than
// the timeout, all pending and future calls on every communicator that came from the same world (by split)
// throw kPeerLost with the reason.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/store/environment.h"

namespace recollect {

struct TcpWorld {
  std::string run_id = {};  // the same for all ranks; a store of another run refuses them
  int rank = 0;
  int size = 1;
  StoreEnvironment store = {};
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);  // for all to come
  std::chrono::milliseconds timeout = std::chrono::minutes(5);       // for a peer, from then on
};

// Collective over the processes of one run: returns when all have come and are connected. Rank 0 opens the
// store, unless the launcher has, and closes it again when it has done its work. A world of one is the self
// communicator. Errors: kPeerLost when they do not all come in time, kConfiguration for two processes of one
// rank, another run's store or a wrong token, kRanksDisagree for different sizes, kHostMemory when the
// process may not open enough sockets.
std::unique_ptr<Communicator> join_tcp_world(const TcpWorld& world);

}  // namespace recollect
