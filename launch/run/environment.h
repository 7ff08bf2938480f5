// What the ranks of a run learn from their environment: torchrun's variables, and ours.
#pragma once

#include <memory>
#include <string>

#include "comm/store/server.h"
#include "launch/run/options.h"

namespace recollect::launcher {

// What all attempts of a run have in common.
struct RunIdentity {
  std::string run_id;  // RECOLLECT_RUN_ID: of no other run on this machine
  std::string token, token_file;
};

// Where the ranks of one attempt meet. Ranks of ours find a store there that the launcher hosts. For any
// other program the port is free: its rank 0 will want to listen there.
class MeetingPoint {
 public:
  MeetingPoint(const RunOptions& options, const RunIdentity& identity, bool for_ours);

  int port() const { return port_; }
  bool has_store() const { return static_cast<bool>(store_); }

 private:
  std::unique_ptr<StoreServer> store_;
  int port_;
};

// OMP_NUM_THREADS for each rank: an equal share of the cores. 0 where the user's value stands, or where one
// rank has all of them.
int omp_threads_to_set(const RunOptions& options);

// The launcher's own environment with the variables of that rank, as NAME=VALUE.
Words environment_of_rank(const RunOptions& options, const RunIdentity& identity, int attempt,
                          const MeetingPoint& place, int rank);

}  // namespace recollect::launcher
