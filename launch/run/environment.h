// The environment variables of the ranks of a run: torchrun's and Recollect's.
#pragma once

#include <memory>
#include <string>

#include "comm/store/server.h"
#include "launch/run/options.h"

namespace recollect::launcher {

// The identity of a run, the same for all attempts.
struct RunIdentity {
  std::string run_id;  // RECOLLECT_RUN_ID, unique on this machine
  std::string token, token_file;
};

// The port at which the ranks of one attempt meet. For ranks of Recollect the launcher hosts a store there.
// For any other program the port stays free, because its rank 0 will listen there.
class MeetingPoint {
 public:
  MeetingPoint(const RunOptions& options, const RunIdentity& identity, bool for_ours);

  int port() const { return port_; }
  bool has_store() const { return static_cast<bool>(store_); }

 private:
  std::unique_ptr<StoreServer> store_;
  int port_;
};

// OMP_NUM_THREADS for each rank: an equal share of the cores. 0 means that it is not set, because the user
// has set it or there is only one rank.
int omp_threads_to_set(const RunOptions& options);

// The launcher's environment with the variables of `rank`, as NAME=VALUE.
Words environment_of_rank(const RunOptions& options, const RunIdentity& identity, int attempt,
                          const MeetingPoint& place, int rank);

}  // namespace recollect::launcher
