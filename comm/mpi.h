// Ranks that talk through MPI, for CPU clusters. Sums are in rank order for every element, so they give the
// same bits as the ranks of one node over shared memory.
//
// Every call first exchanges a small record with all ranks, so that different calls are kRanksDisagree and a
// rank that does not come is kPeerLost with its name. MPI itself cannot be told to give up: after a failure
// the process must end through mpi_abort, which also ends the others.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

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

// Staging memory of a rank in a group of `size` ranks.
std::size_t mpi_staging_bytes(int size);

// Ends all processes of the MPI run, this one with `exit_code`; does not return where MPI runs. For main,
// after an Error in a run that uses MPI. Does nothing when MPI is not initialised or already finalised.
void mpi_abort(int exit_code);

}  // namespace recollect
