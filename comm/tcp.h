// Ranks that communicate over TCP, without MPI. They meet at a store (comm/store/environment.h says where),
// exchange their addresses there and connect directly: each pair of ranks in a group has its own socket. The
// collectives are those of comm/message_communicator.h, so sums have the same bits as over shared memory.
//
// One rank's failure is the failure of all: once a rank aborts, dies, leaves or makes the others wait longer
// than the timeout, all pending and future calls on every communicator split from the same world throw
// kPeerLost with the reason.
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
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);  // for all ranks to come
  std::chrono::milliseconds timeout = std::chrono::minutes(5);       // for a peer, after that
};

// Collective over the processes of one run: returns when all have come and are connected. Rank 0 opens the
// store, unless the launcher has, and closes it when it is no longer needed. A world of one gets the self
// communicator. Throws kPeerLost if they do not all come in time, kConfiguration for two processes of one
// rank, another run's store or a wrong token, kRanksDisagree for different sizes, and kHostMemory if the
// process may not open enough sockets.
std::unique_ptr<Communicator> join_tcp_world(const TcpWorld& world);

}  // namespace recollect
