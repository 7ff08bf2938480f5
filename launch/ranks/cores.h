// How many cores a rank may take: of those that its process may run on, and of those that its control group
// may keep busy at once, its part beside the ranks that share them.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/bootstrap.h"
#include "engine/io/system_files.h"

namespace recollect {

inline constexpr std::size_t kMostCores = 1024;  // of a node, that the system tells apart

// Cores that this process may run on. Where OpenMP has bound this thread to one of them, as OMP_PROC_BIND asks,
// all that it divides among threads.
std::bitset<kMostCores> allowed_cores();

// How many of them it may use, within its control group's quota.
int usable_cores();

// What a rank tells the others of its cores, as bytes.
struct CoreClaim {
  uint64_t node = 0;                   // a digest of what tells it from other nodes
  uint64_t group = 0;                  // a digest of the control group that allows the fewest cores
  double quota = 0;                    // cores that it allows at once; 0: any number
  int64_t ranks = 1;                   // of the node, as the launcher counts them
  int64_t most_threads = 1;            // that OpenMP keeps
  std::bitset<kMostCores> cores = {};  // that the process may run on
};

// Of this thread, whose rank shares its node with so many.
CoreClaim core_claim(const SystemFiles& files, int ranks_on_node);

// Whole cores for rank `rank`, one at least. A core is divided by the ranks that may run on it: ranks that
// their launcher has bound to cores of their own have these, those that have one set divide it. The quota of
// a control group is divided by the ranks in it. Of no rank are more sharers counted than its node has ranks.
int share_of_cores(const std::vector<CoreClaim>& claims, int rank);

// Whether Open MPI bound this process without being asked to: two ranks to a core each, more of them to
// a socket or a part of its memory, which suits programs without threads.
bool is_bound_by_default(const EnvironmentLookup& lookup);

// The nearest of this process and those around it that is Open MPI's launcher on this node.
std::optional<int> find_open_mpi(const SystemFiles& files, int process);

// Takes what Open MPI has itself where it has bound this process so; where it is not found, in another
// container, say, all stays as it was.
void undo_default_binding();

}  // namespace recollect
