// Ranks that talk through MPI, for CPU clusters, with the collectives of comm/message_communicator.h.
//
// A rank that does not come is kPeerLost with its name. MPI itself cannot be told to give up: after a failure
// the process must end through mpi_abort, which also ends the others.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace recollect {

// MPI's life in this process: one object, made and destroyed by main's thread, outliving every communicator
// of it.
class MpiEnvironment {
 public:
  // Error kConfiguration when MPI does not grant MPI_THREAD_MULTIPLE (compute and communication streams both
  // call it) or has been started already.
  MpiEnvironment();
  // Finalises MPI; where a communicator has failed, that would wait for lost peers, so it aborts with
  // kPeerLost.
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

 private:
  friend std::unique_ptr<Communicator> join_mpi_world(const MpiEnvironment&, std::chrono::milliseconds);

  std::shared_ptr<std::atomic<bool>> failed_;  // set by the communicators
};

// Collective over all processes that mpirun started. A world of one is the self communicator.
std::unique_ptr<Communicator> join_mpi_world(const MpiEnvironment& environment,
                                             std::chrono::milliseconds timeout);

// "Open MPI v4.1.4", say; "none on this machine" where a program that was not linked with it finds none. MPI need not have
// been started.
std::string mpi_library();

// Ends all processes of the MPI run, this one with `exit_code`; does not return where MPI runs. For main,
// after an Error in a run that uses MPI. Does nothing when MPI is not initialised or already finalised.
void mpi_abort(int exit_code);

}  // namespace recollect
