// The number of cores that a rank may use: its share of the cores that its process may run on, within its
// share of the quota of its control group.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/bootstrap.h"
#include "engine/io/system_files.h"

namespace recollect {

inline constexpr std::size_t kMostCores = 1024;  // on a node; the size of cpu_set_t

// The cores that this process may run on. If OpenMP has bound this thread to one core (OMP_PROC_BIND), this
// includes the cores of all of OpenMP's places.
std::bitset<kMostCores> allowed_cores();

// The number of allowed cores, limited by the quota of the control group.
int usable_cores();

// What each rank sends to the others about its cores, as bytes.
struct CoreClaim {
  uint64_t node = 0;                   // a digest that identifies the node
  uint64_t group = 0;                  // a digest of the control group with the lowest quota
  double quota = 0;                    // cores that the control group allows; 0: no limit
  int64_t ranks = 1;                   // on the node, as the launcher counts them
  int64_t most_threads = 1;            // OpenMP's limit
  std::bitset<kMostCores> cores = {};  // the process may run on these
};

// The claim of this thread's rank. `ranks_on_node` counts this rank too.
CoreClaim core_claim(const SystemFiles& files, int ranks_on_node);

// The number of whole cores for `rank`, at least one. Ranks share a core equally if they may all run on it,
// so ranks that are bound to cores of their own have all of these. The ranks of a control group share its
// quota equally. A core or a quota never counts more sharers than the node has ranks.
int share_of_cores(const std::vector<CoreClaim>& claims, int rank);

// Whether Open MPI bound this process by default, without a request by the user. It binds each of two ranks
// to a core, and more ranks to a socket or a NUMA node, which suits programs without threads.
bool is_bound_by_default(const EnvironmentLookup& lookup);

// The process id of Open MPI's launcher on this node: `process` itself or its nearest ancestor that is one.
std::optional<int> find_open_mpi(const SystemFiles& files, int process);

// If Open MPI bound this process by default, gives the process the cores of Open MPI's launcher. Does nothing
// if the launcher is not found, for example because it is in another container.
void undo_default_binding();

}  // namespace recollect
