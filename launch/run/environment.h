// What the ranks of a run learn from their environment: torchrun's variables, and ours.
#pragma once

#include <string>

#include "launch/run/options.h"

namespace recollect::launcher {

// What all attempts of a run have in common.
struct RunIdentity {
  std::string run_id;  // RECOLLECT_RUN_ID: of no other run on this machine
  std::string token_file;
};

// OMP_NUM_THREADS for each rank: an equal share of the cores. 0 where the user's value stands, or where one
// rank has all of them.
int omp_threads_to_set(const RunOptions& options);

// The launcher's own environment with the variables of that rank, as NAME=VALUE.
Words environment_of_rank(const RunOptions& options, const RunIdentity& identity, int attempt, int port,
                          int rank);

}  // namespace recollect::launcher
