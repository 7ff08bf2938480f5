// Ranks that communicate through MPI, for CPU clusters, with the collectives of comm/message_communicator.h.
//
// A rank that does not come causes kPeerLost with its name. MPI itself cannot cancel a call: after a failure
// the process must end through mpi_abort, which also ends the other processes.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace recollect {

// MPI's lifetime in this process: one object, made and destroyed by the main thread, which outlives every MPI
// communicator.
class MpiEnvironment {
 public:
  // Throws Error kConfiguration if MPI does not grant MPI_THREAD_MULTIPLE (the compute and communication
  // streams both call it) or has been started already.
  MpiEnvironment();
  // Finalises MPI. If a communicator has failed, finalising would wait for lost peers, so it aborts with
  // kPeerLost.
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

 private:
  friend std::unique_ptr<Communicator> join_mpi_world(const MpiEnvironment&, std::chrono::milliseconds);

  std::shared_ptr<std::atomic<bool>> failed_;  // set by the communicators
};

// Collective over all processes that mpirun started. In a world of one it returns the self communicator.
std::unique_ptr<Communicator> join_mpi_world(const MpiEnvironment& environment,
                                             std::chrono::milliseconds timeout);

// Returns for example "Open MPI v4.1.4", or "none on this machine" if a program that loads MPI at run time
// finds none. MPI need not have been started.
std::string mpi_library();

// Ends all processes of the MPI run, this one with `exit_code`. Does not return if MPI runs, and does nothing
// if MPI is not initialised or already finalised. main calls it after an Error in a run that uses MPI.
void mpi_abort(int exit_code);

}  // namespace recollect
